import { expect, test } from 'vitest';
import type { Json, RunRecord } from '../api/types';
import { answersOf, learntOf, percent, progressOf, short } from './answered';

const run = (given: object): RunRecord => ({ id: 'one', status: 'succeeded', ...given }) as RunRecord;

test('a label comes with its score, and with the answer before only where that was another', () => {
  const output = { predictions: [{ label: 'a', scores: { a: 0.75, b: 0.25 } }, { label: 'b', score: 0.5 }], before: [{ label: 'a' }, { label: 'a' }] } as Json;
  expect(answersOf(output)).toEqual([
    { value: 'a', score: 0.75, before: null },
    { value: 'b', score: 0.5, before: 'a' },
  ]);
});

test.each([
  [3.25, [3.25]],
  ['words', ['words']],
  [['in ', 'pieces'], ['in pieces']],
  [['data:,a', 'data:,b'], ['data:,a', 'data:,b']],
  [{ predictions: [1, 2], before: null }, [1, 2]],
  [{ text: 'said', report: null, adapter: 'a1' }, ['said']],
  [{ picture: 'data:image/png,', note: null }, ['data:image/png,']],
  [{ film: 'data:video/mp4,', words: 'x', other: 'https://other.example/x.png' }, ['data:video/mp4,', 'https://other.example/x.png']],
  [{ stored: 'sha256:00' }, []],
  [null, []],
])('the answers of %j are %j', (output, values) => {
  expect(answersOf(output).map((each) => each.value)).toEqual(values);
});

test('what was learnt is said from the report, or from the receipt where the output is too large', () => {
  const report = { losses: [1.25, 0.031], held_out_before: 0.5, held_out_after: 0.75, decision: { expected: 'expected accuracy about .91, was .74' } };
  const said = ['expected accuracy about .91, was .74', 'held-out score 0.50 → 0.75', 'loss 1.25 → 0.031 in 2 steps'];
  expect(learntOf(run({ output: { report } }))).toEqual(said);
  expect(learntOf(run({ output: { stored: 'sha256:00' }, metrics: { adaptation: { receipt: { report } } } }))).toEqual(said);
  expect(learntOf(run({ output: 'x' }))).toEqual([]);
});

test('how far it is: its place, or its step', () => {
  expect(progressOf(run({ queue_position: 3 }))).toBe('place 3 of the queue');
  expect(progressOf(run({ input: { steps: 2000 }, metrics: { adaptation: { step: 12, loss: 0.5 } } }))).toBe('step 12 of 2,000, loss 0.50');
});

test('numbers and rows are short', () => {
  expect(short(124.82322353124619)).toBe('124.8');
  expect(short(1234567.891)).toBe('1,234,570');
  expect(short({ age: 66, bmi: 26.2, none: null, bp: 114, tc: 255, ldl: 185, hdl: 56 })).toBe('age 66 · bmi 26.2 · bp 114 · tc 255 · 2 more');
});

test('a share is never rounded to nothing or to all', () => {
  expect([0, 0.001, 0.734, 0.9978, 1].map(percent)).toEqual(['0%', '<1%', '73%', '>99%', '100%']);
});
