import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Connection } from './connection';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('a lost server is looked for until it is there, and who waits goes on', async () => {
  const answers = [false, false, true];
  const connection = new Connection(() => Promise.resolve(answers.shift() ?? false));
  connection.lost();
  const waited = connection.untilUp();
  expect(connection.isUp).toBe(false);
  await vi.advanceTimersByTimeAsync(10_000);
  await waited;
  expect(connection.isUp).toBe(true);
  expect(answers).toEqual([]);
});

test('an answer to any other request ends the search', async () => {
  const look = vi.fn(() => Promise.resolve(false));
  const connection = new Connection(look);
  connection.lost();
  connection.found();
  await vi.advanceTimersByTimeAsync(10_000);
  expect(look).not.toHaveBeenCalled();
});

test('who no longer wants to wait is let go', async () => {
  const connection = new Connection(() => Promise.resolve(false));
  connection.lost();
  const stop = new AbortController();
  const waited = connection.untilUp(stop.signal);
  stop.abort();
  await expect(waited).rejects.toThrow();
});
