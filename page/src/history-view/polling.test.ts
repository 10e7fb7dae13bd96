import { LitElement } from 'lit';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Unreachable } from '../api/client';
import { connection } from '../connection/connection';
import { Polling } from './polling';

class PolledElement extends LitElement {
  asked: () => Promise<void> = () => Promise.resolve();
  readonly polling = new Polling(this, () => this.asked(), 1000);
}
customElements.define('polled-element', PolledElement);

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  document.body.replaceChildren();
  vi.restoreAllMocks();
  vi.useRealTimers();
});

async function polled(ask: () => Promise<void>): Promise<{ element: PolledElement; asked: ReturnType<typeof vi.fn> }> {
  const asked = vi.fn(ask);
  const element = Object.assign(document.createElement('polled-element') as PolledElement, { asked });
  document.body.append(element);
  await vi.advanceTimersByTimeAsync(0);
  return { element, asked };
}

test('it asks at once and again and again, and stops when it is left', async () => {
  const { element, asked } = await polled(() => Promise.resolve());
  expect(asked).toHaveBeenCalledTimes(1);
  await vi.advanceTimersByTimeAsync(3000);
  expect(asked).toHaveBeenCalledTimes(4);
  element.remove();
  await vi.advanceTimersByTimeAsync(10_000);
  expect(asked).toHaveBeenCalledTimes(4);
});

test('one that is left while it asks does not ask again', async () => {
  let answer = (): void => undefined;
  const { element, asked } = await polled(() => new Promise((resolve) => (answer = resolve)));
  element.remove();
  answer();
  await vi.advanceTimersByTimeAsync(10_000);
  expect(asked).toHaveBeenCalledTimes(1);
});

test('it goes on after an error, which is said until it is mended', async () => {
  const { element, asked } = await polled(() => Promise.reject(new Error('not yet')));
  expect(element.polling.problem).toBe('not yet');
  asked.mockResolvedValue(undefined);
  await vi.advanceTimersByTimeAsync(1000);
  expect(asked).toHaveBeenCalledTimes(2);
  expect(element.polling.problem).toBe('');
});

test('a server that is gone is not asked until it is back', async () => {
  vi.stubGlobal('fetch', () => Promise.reject(new TypeError('down')));
  connection.lost();
  const { asked } = await polled(() => (connection.isUp ? Promise.resolve() : Promise.reject(new Unreachable())));
  await vi.advanceTimersByTimeAsync(10_000);
  expect(asked).toHaveBeenCalledTimes(1);
  connection.found();
  vi.unstubAllGlobals();
  await vi.advanceTimersByTimeAsync(1000);
  expect(asked).toHaveBeenCalledTimes(2);
});

function hide(isHidden: boolean): void {
  vi.spyOn(document, 'hidden', 'get').mockReturnValue(isHidden);
  document.dispatchEvent(new Event('visibilitychange'));
}

test('nothing is asked, and no timer runs, while the tab is hidden; who comes back is told at once', async () => {
  const { asked } = await polled(() => Promise.resolve());
  hide(true);
  expect(vi.getTimerCount()).toBe(0);
  await vi.advanceTimersByTimeAsync(5000);
  expect(asked).toHaveBeenCalledTimes(1);
  hide(false);
  expect(asked).toHaveBeenCalledTimes(2);
  await vi.advanceTimersByTimeAsync(1000);
  expect(asked).toHaveBeenCalledTimes(3);
});

test('an answer that comes while the tab is hidden starts no timer', async () => {
  let answer = (): void => undefined;
  const { asked } = await polled(() => new Promise((resolve) => (answer = resolve)));
  hide(true);
  answer();
  await vi.advanceTimersByTimeAsync(5000);
  expect(asked).toHaveBeenCalledTimes(1);
  expect(vi.getTimerCount()).toBe(0);
});

test('one that is begun in a hidden tab asks nothing until it is shown', async () => {
  vi.spyOn(document, 'hidden', 'get').mockReturnValue(true);
  const { asked } = await polled(() => Promise.resolve());
  await vi.advanceTimersByTimeAsync(5000);
  expect(asked).not.toHaveBeenCalled();
  hide(false);
  expect(asked).toHaveBeenCalledTimes(1);
});
