import { expect, test } from 'vitest';
import type { Json } from '../api/types';
import { asDataUri } from './asked-input';
import { askedOf, isChanged, isSame, isUndecided, numberText, percent, readingOf } from './readings';

test.each<[Json, string]>([
  [{ label: 'a', scores: { a: 1 } }, 'scores'],
  [{ label: 'a', score: 0.5 }, 'scores'],
  [{ label: 'a' }, 'text'],
  [1.5, 'number'],
  ['said', 'text'],
  [{ mask: 'data:image/png;base64,x' }, 'other'],
  [null, 'other'],
])('%j is read as %s', (answer, kind) => {
  expect(readingOf(answer).kind).toBe(kind);
});

test('scores are sorted, whatever their order', () => {
  expect(readingOf({ label: 'b', scores: { a: 0.2, b: 0.5, c: 0.3 } })).toMatchObject({ scores: [['b', 0.5], ['c', 0.3], ['a', 0.2]] });
});

test('labels with other scores are the same answer, numbers by what is shown of them', () => {
  expect(isSame(readingOf({ label: 'a', score: 0.1 }), readingOf({ label: 'a', score: 0.9 }))).toBe(true);
  expect(isSame(readingOf(1.00001), readingOf(1.00002))).toBe(true);
  expect(isSame(readingOf(1), readingOf(2))).toBe(false);
});

test('labels that all score the same are no answer, so a later one is another', () => {
  const [even, boot] = [{ a: 1 / 3, b: 1 / 3, c: 1 / 3 }, { a: 0.5, b: 0.3, c: 0.2 }].map((scores) => readingOf({ label: 'a', scores }));
  expect([even, boot, readingOf({ label: 'a', score: 1 }), null].map((each) => isUndecided(each ?? null))).toEqual([true, false, false, false]);
  expect([isChanged(boot!, even!), isChanged(boot!, boot!), isChanged(even!, even!), isChanged(boot!, null)]).toEqual([true, false, false, false]);
});

test('answers are put beside what was asked, single or in lists', () => {
  const input = { text: 'one', texts: ['two', 'three'], labels: ['a', 'b', 'c'], examples: [{}, {}, {}] };
  expect(askedOf(input, 3)).toEqual(['one', 'two', 'three']);
  expect(askedOf({ rows: [{ a: 1 }], method: 'auto' }, 1)).toEqual([{ a: 1 }]);
  expect(askedOf({ texts: ['a'] }, 7)).toBeNull();
});

test('a share that is not nothing is not shown as nothing', () => {
  expect([0, 0.001, 0.006, 0.5, 1].map(percent)).toEqual(['0%', '<1%', '1%', '50%', '100%']);
  expect([140.2371, 0.000012345, 123456.7].map(numberText)).toEqual(['140.2', '0.00001235', '123,457']);
});

test('base64 of a picture or a sound is shown as one', () => {
  expect(asDataUri('iVBORw0KGgoAAAA')).toMatch(/^data:image\/png;base64,iVBOR/);
  expect(asDataUri('UklGRiQIAABXQVZFZm10')).toMatch(/^data:audio\/wav/);
  expect(asDataUri('a text')).toBe('a text');
});
