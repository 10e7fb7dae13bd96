import { expect, test } from 'vitest';
import { ageOf, seconds, span } from './age';

const NOW = Date.parse('2026-01-10T00:00:00Z');

test.each([
  ['2026-01-10T00:00:02Z', 'now'],
  ['2026-01-09T23:59:50Z', '10 s ago'],
  ['2026-01-09T23:55:00Z', '5 min ago'],
  ['2026-01-09T21:00:00Z', '3 h ago'],
  ['2026-01-08T23:00:00Z', '1 day ago'],
  ['2025-12-01T12:00:00Z', 'Dec 1, 2025'],
])('%s is %s', (moment, said) => {
  expect(ageOf(moment, NOW)).toBe(said);
});

test.each([[0.0004, '1 ms'], [0.08, '80 ms'], [0.156, '0.16 s'], [49.1, '49 s'], [119, '1 min']])('%d s are %s', (value, said) => {
  expect(seconds(value)).toBe(said);
});

test('days are counted', () => {
  expect([86_400, 3 * 86_400].map(span)).toEqual(['1 day', '3 days']);
});
