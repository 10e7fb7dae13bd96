import { expect, test } from 'vitest';
import { bytes, words } from './figures';

test.each([[0, '0 bytes'], [999, '999 bytes'], [1500, '1.50 kB'], [1.2e9, '1.20 GB']])('%d is %s', (count, said) => {
  expect(bytes(count)).toBe(said);
});

test('a name is words', () => {
  expect(words('device_memory_bytes')).toBe('device memory');
});
