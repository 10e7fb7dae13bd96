/** The stages that an adaptation passes before its answer, each done, under way, ahead or left out. */
import type { Run } from '../runs/run';

export interface Stage {
  name: string;
  state: 'done' | 'active' | 'ahead' | 'skipped';
  /** What is known of it; empty: nothing. */
  about: string;
}

/** Return the stages of a run; methods other than `auto` have none before their steps. */
export function stagesOf(run: Run): Stage[] {
  const { hasFirstAnswer, course, isOver, report } = run;
  if (report?.known === true) return [];
  const steps = course.steps.at(-1)?.number ?? 0;
  const isAuto = hasFirstAnswer || (steps === 0 && !isOver && [undefined, 'auto'].includes(run.input.method as string | undefined));
  const hasSteps = steps > 0;
  const own: Stage = {
    name: 'Gradient steps',
    state: isOver ? (hasSteps ? 'done' : 'skipped') : hasSteps ? 'active' : isAuto ? 'ahead' : 'active',
    about: hasSteps ? '' : isOver ? 'not needed' : isAuto ? '' : 'preparing the examples',
  };
  if (!isAuto) return [own];
  const isDecided = hasSteps || isOver;
  return [
    { name: 'First answer', state: hasFirstAnswer ? 'done' : isOver ? 'skipped' : 'active', about: hasFirstAnswer ? 'before any step' : 'reading the examples' },
    {
      name: 'Folds of the examples',
      state: isDecided ? (report && !hasSteps && report.decision === undefined ? 'skipped' : 'done') : hasFirstAnswer ? 'active' : 'ahead',
      about: isDecided ? 'compared' : hasFirstAnswer ? 'do steps answer better?' : '',
    },
    own,
  ];
}
