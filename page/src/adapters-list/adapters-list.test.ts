import { afterEach, expect, test, vi } from 'vitest';
import { HOSTILE, button, enter, found, json, server, settled, shown, toldBy } from '../testing/shown';
import type { AdaptersList } from './adapters-list';
import './adapters-list';

const NAMED = { id: 'a1', name: 'tickets', version: 2, examples: 48, labels: ['x', HOSTILE], score_before: 0.5, score_after: 0.875 };
const ALL = json({ results: [NAMED, { id: HOSTILE }, { id: 'a3' }], next: null });

afterEach(() => {
  document.body.replaceChildren();
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

async function list(...answers: Parameters<typeof server>): Promise<{ element: AdaptersList; asked: [string, RequestInit][] }> {
  const asked = server(...answers);
  const element = await shown<AdaptersList>('adapters-list');
  await settled();
  return { element, asked };
}

test('each adapter has its name, examples, labels and scores, all as text', async () => {
  const { element } = await list(ALL);
  const [first, second] = [...element.querySelectorAll('.adapter')].map((each) => each.textContent.replace(/\s+/g, ' '));
  expect(first).toContain('tickets@v2 a1');
  expect(first).toContain(`48 examples, 2 labels x, ${HOSTILE}`);
  expect(first).toContain('88% expected accuracy, was 50%');
  expect(second).toContain(HOSTILE);
  expect(second).toContain('Its accuracy was not estimated.');
  expect(element.querySelector('img')).toBeNull();
});

test('a predictor that keeps none has none', async () => {
  const { element } = await list(json({ error: 'not found' }, 404));
  expect(element.textContent).toContain('There are none.');
  expect(element.querySelector('[role=alert]')).toBeNull();
});

test('one is removed only when asked twice', async () => {
  const { element, asked } = await list(ALL, () => new Response('{}'), json({ results: [], next: null }));
  button(element, 'Remove tickets@v2').click();
  await settled();
  expect(button(element, 'Remove tickets@v2').textContent.trim()).toBe('Really remove?');
  expect(button(element, 'Remove a3').textContent.trim()).toBe('Remove');
  expect(asked).toHaveLength(1);
  button(element, 'Remove tickets@v2').click();
  await settled();
  expect(asked[1]?.[0]).toMatch(/\/adapters\/a1$/);
  expect(asked[1]?.[1].method).toBe('DELETE');
  expect(element.textContent).toContain('There are none.');
});

test('two at most are compared', async () => {
  const { element } = await list(ALL);
  const boxes = [...element.querySelectorAll<HTMLInputElement>('[type=checkbox]')];
  boxes[0]?.click();
  boxes[2]?.click();
  await settled();
  expect(boxes.map((each) => each.disabled)).toEqual([false, true, false]);
  expect(found(element, '#compare-title').textContent).toBe('Compare the base, tickets@v2 and a3');
});

test('names and labels are looked for, and one that is found is used or downloaded', async () => {
  const { element, asked } = await list(ALL, ALL, ALL, () => new Response('weights'));
  await enter(found(element, '#by-name'), ' tickets ', 'change');
  await enter(found(element, '#by-label'), 'x', 'change');
  expect(asked.at(-1)?.[0]).toMatch(/\/adapters\?limit=100&name=tickets&label=x$/);
  const used = toldBy(element, 'use-adapter');
  button(element, 'Use tickets@v2').click();
  expect(used).toEqual(['a1']);
  const saved = vi.spyOn(HTMLAnchorElement.prototype, 'click').mockImplementation(() => undefined);
  button(element, 'Download tickets@v2').click();
  await vi.waitFor(() => expect(saved).toHaveBeenCalledTimes(1));
  expect(asked.at(-1)?.[0]).toMatch(/\/adapters\/a1\/download\?format=safetensors$/);
  button(element, 'Download tickets@v2 for PEFT').click();
  await vi.waitFor(() => expect(saved).toHaveBeenCalledTimes(2));
  expect(asked.at(-1)?.[0]).toMatch(/\/adapters\/a1\/download\?format=peft$/);
});
