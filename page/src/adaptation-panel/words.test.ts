import { expect, test } from 'vitest';
import { reportWords } from './words';

test('a report is told in sentences', () => {
  const report = {
    examples: 48,
    method: 'lora',
    trained_parameters: 74498,
    steps: 40,
    seconds: 3.21,
    precision: 'cpu/fp32',
    stop_reason: 'max_steps',
    decision: { why: 'gradients have the least loss', expected: 'expected accuracy about .84 ± .03, was .67' },
    warnings: ['columns not used: id'],
    known: false,
  };
  expect(reportWords(report)).toEqual([
    'The model adapted to 48 examples by lora, training 74,498 parameters, in 40 steps, in 3.2 s, on cpu/fp32.',
    'Gradients have the least loss.',
    'Expected accuracy about .84 ± .03, was .67.',
    'It ended because all steps were taken.',
    'Note: columns not used: id.',
  ]);
});

test('held-out scores and a known request are said', () => {
  const said = reportWords({ held_out_before: 0.5, held_out_after: 0.75, held_out_examples: 12, known: true, stop_reason: 'max_steps' });
  expect(said).toEqual([
    'These examples were known, so no step was taken now; this is how it had learned them.',
    'On 12 held-out examples the score went from 0.500 to 0.750.',
  ]);
});

test('an odd report says nothing', () => {
  expect(reportWords({ examples: 'many', decision: [1], warnings: 'none' })).toEqual([]);
});

test.each([
  ['fitted', 'the head was fitted without steps'],
  ['decided', 'no steps would answer better'],
  ['stop_after', 'the steps asked for were taken'],
])('an end is said in words: %s', (stop_reason, words) => {
  expect(reportWords({ stop_reason })).toEqual([`It ended because ${words}.`]);
});
