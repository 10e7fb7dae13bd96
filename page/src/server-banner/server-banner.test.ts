import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { connection } from '../connection/connection';
import { found, shown } from '../testing/shown';
import type { ServerBanner } from './server-banner';
import './server-banner';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  connection.found();
  vi.useRealTimers();
});

async function said(element: ServerBanner): Promise<string | null> {
  await element.updateComplete;
  const banner = found(element, '[role=status]');
  return banner.hidden ? null : banner.textContent;
}

test('while the server answers, nothing is said', async () => {
  const element = await shown<ServerBanner>('server-banner');
  connection.found();
  expect(await said(element)).toBeNull();
});

test('a server that is gone is said, for as long as it is', async () => {
  const element = await shown<ServerBanner>('server-banner');
  vi.stubGlobal('fetch', () => Promise.reject(new TypeError('down')));
  connection.lost();
  await vi.advanceTimersByTimeAsync(60_000);
  vi.unstubAllGlobals();
  expect(await said(element)).toContain('The server does not answer. What you typed is kept');
});

test('a server that is back is said for a while', async () => {
  const element = await shown<ServerBanner>('server-banner');
  connection.lost();
  connection.found();
  expect(await said(element)).toBe('The server is back.');
  await vi.advanceTimersByTimeAsync(4000);
  expect(await said(element)).toBeNull();
});

test('one that goes again at once is not forgotten', async () => {
  const element = await shown<ServerBanner>('server-banner');
  connection.lost();
  connection.found();
  vi.stubGlobal('fetch', () => Promise.reject(new TypeError('down')));
  connection.lost();
  await vi.advanceTimersByTimeAsync(4000);
  vi.unstubAllGlobals();
  expect(await said(element)).toContain('The server does not answer.');
});
