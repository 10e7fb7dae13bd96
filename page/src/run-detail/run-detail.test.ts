import { afterEach, expect, test, vi } from 'vitest';
import { HOSTILE, button, found, json, server, settled, shown, toldBy } from '../testing/shown';
import type { RunDetail } from './run-detail';
import './run-detail';

const RECORD = { id: HOSTILE, status: 'processing', input: { text: HOSTILE }, owner: HOSTILE, created_at: '2026-01-02T03:04:05Z' };
const ENDLESS = (): Promise<Response> => new Promise(() => undefined);

afterEach(() => {
  document.body.replaceChildren();
  vi.unstubAllGlobals();
});

async function detail(...answers: Parameters<typeof server>): Promise<{ element: RunDetail; asked: [string, RequestInit][] }> {
  const asked = server(...answers);
  const element = await shown<RunDetail>('run-detail', { runId: 'one' });
  await settled();
  return { element, asked };
}

test('the request, who made it, and the result that is followed, all as text', async () => {
  const completed = { status: 'succeeded', output: `result ${HOSTILE}` };
  const { element } = await detail(json(RECORD), () => new Response(`event: completed\ndata: ${JSON.stringify(completed)}\n\n`));
  await vi.waitFor(() => expect(element.textContent).toContain(`result ${HOSTILE}`));
  expect(found(element, 'h2').textContent).toBe(HOSTILE);
  expect(element.textContent).toContain(`by ${HOSTILE}`);
  expect(JSON.parse(found(element, 'details.request pre').textContent)).toEqual({ input: { text: HOSTILE } });
  expect(found(element, '.gist-heading .gist-asked').textContent.trim()).toBe(HOSTILE);
  expect([...element.querySelectorAll('button')].map((each) => each.textContent.trim())).not.toContain('Cancel'); // it is over
  expect(element.querySelector('img')).toBeNull();
});

test('its request can be run again', async () => {
  const { element } = await detail(json(RECORD), ENDLESS);
  const told = toldBy(element, 'load-request');
  button(element, 'Run again').click();
  expect(told).toEqual([{ kind: 'predictions', input: { text: HOSTILE } }]);
});

test('one that runs can be cancelled; where the server says no, that is said', async () => {
  const { element, asked } = await detail(json(RECORD), ENDLESS, json({ error: 'it is not yours' }, 403));
  button(element, 'Cancel').click();
  await settled();
  expect(asked.at(-1)?.[0]).toMatch(/\/predictions\/one\/cancel$/);
  expect(found(element, '[role=alert]').textContent).toBe('it is not yours');
  expect(element.querySelector('result-panel')).not.toBeNull();
});

test('one that is not there is said', async () => {
  const { element } = await detail(json({ error: 'there is none' }, 404));
  expect(found(element, '[role=alert]').textContent).toBe('there is none');
});

test('one that is left is followed no longer', async () => {
  const { element, asked } = await detail(json(RECORD), ENDLESS);
  const { signal } = asked[1]?.[1] ?? {};
  expect(signal?.aborted).toBe(false);
  element.remove();
  expect(signal?.aborted).toBe(true);
});
