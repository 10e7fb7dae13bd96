import { expect, test } from 'vitest';
import type { Json } from '../api/types';
import { columnsOf, shapeOf } from './shapes';

test.each<[Json, string]>([
  [null, 'nothing'],
  [[], 'nothing'],
  ['a', 'text'],
  [0, 'text'],
  [false, 'text'],
  [[{ a: 1 }, { b: 2 }], 'table'],
  [['a', 'b'], 'list'],
  [[[1], [2]], 'json'],
  [{ a: 1 }, 'object'],
])('%o is shown as %s', (value, shape) => {
  expect(shapeOf(value)).toBe(shape);
});

test('an object inside an object is JSON', () => {
  expect(shapeOf({ a: 1 }, 1)).toBe('json');
});

test('columns are those of all rows', () => {
  expect(columnsOf([{ a: 1 }, { b: 1, a: 2 }])).toEqual(['a', 'b']);
});

test('of very many columns there are the first', () => {
  const row = Object.fromEntries(Array.from({ length: 5000 }, (_, n) => [`c${n}`, n]));
  expect(columnsOf([row])).toHaveLength(100);
});
