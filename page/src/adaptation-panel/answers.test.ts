import { expect, test } from 'vitest';
import { answerOf, answerRows } from './answers';

test('answers stand beside the inputs that they are to', () => {
  const before = [{ label: 'a', scores: { a: 0.6, b: 0.4 } }, { label: 'a', scores: { a: 0.9, b: 0.1 } }];
  const after = [{ label: 'b', scores: { a: 0.1, b: 0.9 } }];
  expect(answerRows({ text: 'one', texts: ['two'] }, [before, null, after])).toEqual([
    { input: 'one', answers: [{ label: 'a', score: 0.6 }, null, { label: 'b', score: 0.9 }] },
    { input: 'two', answers: [{ label: 'a', score: 0.9 }, null, null] },
  ]);
});

test('where it cannot be seen which inputs they are, they have numbers', () => {
  expect(answerRows({ image: 'x' }, [[1, 2]]).map((each) => each.input)).toEqual(['input 1', 'input 2']);
});

test('an answer of any kind is text', () => {
  expect(answerOf(3.5)).toEqual({ label: '3.5', score: null });
  expect(answerOf({ x: 1 })).toEqual({ label: '{"x":1}', score: null });
  expect(answerOf({ label: 'a', score: 0.5 })).toEqual({ label: 'a', score: 0.5 });
});
