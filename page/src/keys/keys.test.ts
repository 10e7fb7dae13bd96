import { beforeEach, expect, test } from 'vitest';
import { Keys } from './keys';

beforeEach(() => sessionStorage.clear());

test('all who ask wait for one answer, and find the key', async () => {
  const keys = new Keys(sessionStorage);
  const asked = Promise.all([keys.ask('a key is needed'), keys.ask('again')]);
  expect(keys.wanted).toBe('a key is needed');
  keys.give('sk-1');
  await asked;
  expect(keys.current).toBe('sk-1');
  expect(keys.wanted).toBeNull();
});

test('a tab that is loaded again still has its key', () => {
  new Keys(sessionStorage).give('sk-1');
  expect(new Keys(sessionStorage).current).toBe('sk-1');
});

test('a dismissed question leaves no key', async () => {
  const keys = new Keys(sessionStorage);
  const asked = keys.ask('why');
  keys.give(null);
  await asked;
  expect(keys.current).toBeNull();
});
