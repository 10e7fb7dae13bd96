import { expect, test } from 'vitest';
import { ROW_HEIGHT, windowOf } from './window';

test('only rows in sight are rendered, and a few around them', () => {
  expect(windowOf(0, 10 * ROW_HEIGHT, 5000)).toEqual({ first: 0, end: 18 });
  expect(windowOf(1000 * ROW_HEIGHT, 10 * ROW_HEIGHT, 5000)).toEqual({ first: 992, end: 1018 });
});

test('at the end there is nothing beyond the last row', () => {
  expect(windowOf(4990 * ROW_HEIGHT, 10 * ROW_HEIGHT, 5000).end).toBe(5000);
  expect(windowOf(9999 * ROW_HEIGHT, 10 * ROW_HEIGHT, 3)).toEqual({ first: 3, end: 3 });
});
