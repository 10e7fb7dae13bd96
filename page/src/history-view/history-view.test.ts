import { afterEach, expect, test, vi } from 'vitest';
import type { Json } from '../api/types';
import { HOSTILE, button, enter, found, json, server, settled, shown } from '../testing/shown';
import type { HistoryView } from './history-view';
import './history-view';

const RUN = { id: HOSTILE, status: 'succeeded', input: { text: HOSTILE }, output: { predictions: [{ label: 'delivery', score: 0.73 }] }, metrics: { predict_time: 1.234 } };

afterEach(() => {
  document.body.replaceChildren();
  vi.unstubAllGlobals();
});

function page(results: Json[], next: string | null = null): () => Response {
  return json({ results, next, previous: null });
}

test('what was run is listed with a link, and all of it is text', async () => {
  server(page([RUN]));
  const element = await shown<HistoryView>('history-view');
  await settled();
  const words = found(element, '.entry').textContent.replace(/\s+/g, ' ');
  expect(words).toContain(`${HOSTILE} delivery 73%`);
  expect(words).toContain(`succeeded in 1.2 s ${HOSTILE}`);
  expect(found(element, '.entry a').getAttribute('href')).toBe(`#/predictions/${encodeURIComponent(HOSTILE)}`);
  expect(element.querySelector('img')).toBeNull();
});

test('that there are none is said only when the server has said so', async () => {
  let answer = (_: Response): void => undefined;
  server(() => new Promise((resolve) => (answer = resolve)));
  const element = await shown<HistoryView>('history-view');
  await settled();
  expect(element.textContent).not.toContain('There are none.');
  answer(page([])());
  await settled();
  expect(element.textContent).toContain('There are none.');
});

test('older and newer turn the pages', async () => {
  const asked = server(page([RUN], 'second'), page([RUN], null), page([RUN], 'second'));
  const element = await shown<HistoryView>('history-view');
  await settled();
  expect([button(element, 'Newer').disabled, button(element, 'Older').disabled]).toEqual([true, false]);
  button(element, 'Older').click();
  await settled();
  expect([button(element, 'Newer').disabled, button(element, 'Older').disabled]).toEqual([false, true]);
  button(element, 'Newer').click();
  await settled();
  expect(asked.map(([url]) => new URL(url).searchParams.get('cursor'))).toEqual([null, 'second', null]);
});

test('a filter is asked for, and still shown after a look at one run', async () => {
  const asked = server(page([RUN]));
  const element = await shown<HistoryView>('history-view');
  await settled();
  await enter(found(element, 'select'), 'failed', 'change');
  expect(new URL(asked.at(-1)?.[0] ?? '').searchParams.get('status')).toBe('failed');
  element.runId = 'one';
  await settled();
  expect(element.querySelector('run-detail')).not.toBeNull();
  element.runId = null;
  await settled();
  expect([...element.querySelectorAll<HTMLOptionElement>('option[selected]')].map((each) => each.value)).toEqual(['failed']);
  expect(new URL(asked.at(-1)?.[0] ?? '').pathname).toBe('/predictions');
});

test('another list is asked for at once, from its first page on', async () => {
  const asked = server(page([RUN], 'second'));
  const element = await shown<HistoryView>('history-view');
  await settled();
  button(element, 'Older').click();
  await settled();
  element.listed = 'trainings';
  await settled();
  expect(asked.at(-1)?.[0]).toMatch(/\/trainings\?limit=30$/);
  expect(found(element, '[aria-current=true]').textContent).toBe('Trainings');
});
