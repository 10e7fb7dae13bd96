import { expect, test } from 'vitest';
import { ROW_HEIGHT, stepOf, windowOf } from './window';

test('only rows in sight are rendered, and a few around them', () => {
  expect(windowOf(0, 10 * ROW_HEIGHT, 5000)).toEqual({ first: 0, end: 18 });
  expect(windowOf(1000 * ROW_HEIGHT, 10 * ROW_HEIGHT, 5000)).toEqual({ first: 992, end: 1018 });
});

test('at the end there is nothing beyond the last row', () => {
  expect(windowOf(4990 * ROW_HEIGHT, 10 * ROW_HEIGHT, 5000).end).toBe(5000);
  expect(windowOf(9999 * ROW_HEIGHT, 10 * ROW_HEIGHT, 3)).toEqual({ first: 3, end: 3 });
});

test('within a step all rows in sight are rendered', () => {
  for (let scrolled = 3600; scrolled < 3600 + 5 * ROW_HEIGHT; scrolled += 7) {
    const { first, end } = windowOf(stepOf(scrolled), 10 * ROW_HEIGHT, 5000);
    expect(first * ROW_HEIGHT).toBeLessThanOrEqual(scrolled);
    expect(end * ROW_HEIGHT).toBeGreaterThanOrEqual(scrolled + 10 * ROW_HEIGHT);
  }
  expect(stepOf(3600 + ROW_HEIGHT)).toBe(stepOf(3600));
});
