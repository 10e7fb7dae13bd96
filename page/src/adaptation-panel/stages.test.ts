import { expect, test } from 'vitest';
import { Run } from '../runs/run';
import { stagesOf } from './stages';

const FIRST = { hasFirstAnswer: true };
const SO_FAR = { early: { predictions: [], expected: '', step: 2 } };

function states(given: Partial<Run>, steps = 0, input = {}): string {
  const run = Object.assign(new Run('predictions', input, 'one'), { phase: 'running', ...given });
  for (let step = 1; step <= steps; step += 1) run.course.metric('adaptation.step', step);
  return stagesOf(run).map((each) => each.state).join(' ');
}

test.each([
  ['before all', {}, 0, 'active ahead ahead'],
  ['once the first answer stands', FIRST, 0, 'done active ahead'],
  ['while steps run', FIRST, 3, 'done done active'],
  ['at the end', { ...FIRST, phase: 'succeeded' }, 3, 'done done done'],
  ['where no step was needed', { ...FIRST, phase: 'succeeded' }, 0, 'done done skipped'],
] as [string, Partial<Run>, number, string][])('the stages of auto: %s', (_, given, steps, said) => {
  expect(states(given, steps)).toBe(said);
});

test('another method has its steps alone, and known examples have no stage', () => {
  expect(states({}, 0, { method: 'lora' })).toBe('active');
  expect(states({}, 2, { method: 'lora' })).toBe('active');
  expect(states(SO_FAR, 2, { method: '' })).toBe('active');
  expect(states({ phase: 'succeeded', report: { known: true } })).toBe('');
});
