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
  const { early, course, isOver, report } = run;
  if (report?.known === true) return [];
  const steps = course.steps.at(-1)?.number ?? 0;
  const isAuto = early !== null || (steps === 0 && !isOver && [undefined, 'auto'].includes(run.input.method as string | undefined));
  const hasSteps = steps > 0;
  const own: Stage = {
    name: 'Gradient steps',
    state: isOver ? (hasSteps ? 'done' : 'skipped') : hasSteps ? 'active' : isAuto ? 'ahead' : 'active',
    about: hasSteps ? '' : isOver ? 'not needed' : isAuto ? '' : 'preparing the examples',
  };
  if (!isAuto) return [own];
  const isDecided = hasSteps || isOver;
  return [
    { name: 'First answer', state: early ? 'done' : isOver ? 'skipped' : 'active', about: early ? 'before any step' : 'reading the examples' },
    {
      name: 'Folds of the examples',
      state: isDecided ? (report && !hasSteps && report.decision === undefined ? 'skipped' : 'done') : early ? 'active' : 'ahead',
      about: isDecided ? 'compared' : early ? 'do steps answer better?' : '',
    },
    own,
  ];
}
