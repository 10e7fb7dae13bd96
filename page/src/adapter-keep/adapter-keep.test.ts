import { afterEach, expect, test, vi } from 'vitest';
import { keys } from '../keys/keys';
import { HOSTILE, button, found, json, server, settled, shown, toldBy } from '../testing/shown';
import type { AdapterKeep } from './adapter-keep';
import './adapter-keep';

afterEach(() => {
  keys.give(null);
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

/** Give a name; the page must not be loaded anew. */
async function name(element: HTMLElement, given: string): Promise<void> {
  found<HTMLInputElement>(element, '[name=name]').value = given;
  expect(found(element, 'form').dispatchEvent(new Event('submit', { cancelable: true }))).toBe(false);
  await settled();
}

test('a name is kept by the server, and its version is said', async () => {
  const asked = server(json({ id: 'a/1', name: 'tickets', version: 3 }));
  const element = await shown<AdapterKeep>('adapter-keep', { adapter: 'a/1' });
  await name(element, 'tickets');
  expect(asked).toHaveLength(1);
  expect(asked[0]?.[0]).toMatch(/\/adapters\/a%2F1$/);
  expect(asked[0]?.[1]).toMatchObject({ method: 'PATCH', body: '{"name":"tickets"}' });
  expect(found(element, '[role=status]').textContent).toBe('Kept as tickets, version 3.');
});

test('a name that is refused is said, as text', async () => {
  server(json({ error: HOSTILE }, 409));
  const element = await shown<AdapterKeep>('adapter-keep', { adapter: 'a1' });
  await name(element, 'tickets');
  expect(found(element, '[role=alert]').textContent).toBe(HOSTILE);
  expect(found(element, '[role=status]').textContent).toBe('');
  expect(element.querySelector('img')).toBeNull();
});

test('it can be used next, and compared', async () => {
  const element = await shown<AdapterKeep>('adapter-keep', { adapter: 'a1' });
  const told = [toldBy(element, 'use-adapter'), toldBy(element, 'compare-adapter')];
  button(element, 'Use in the next request').click();
  expect(told).toEqual([['a1'], []]);
  button(element, 'Compare').click();
  expect(told).toEqual([['a1'], ['a1']]);
});

test.each([
  ['Download', 'safetensors', 'a1.safetensors'],
  ['Download for PEFT', 'peft', 'a1.zip'],
])('%s: the file is asked for with the key, and saved', async (words, format, file) => {
  keys.give('sk-1');
  const asked = server(() => new Response('weights'));
  const saved: string[] = [];
  vi.spyOn(HTMLAnchorElement.prototype, 'click').mockImplementation(function (this: HTMLAnchorElement) {
    saved.push(this.download);
  });
  const element = await shown<AdapterKeep>('adapter-keep', { adapter: 'a1' });
  button(element, words).click();
  await vi.waitFor(() => expect(saved).toEqual([file]));
  expect(asked[0]?.[0]).toMatch(new RegExp(`/adapters/a1/download\\?format=${format}$`));
  expect((asked[0]?.[1].headers as Headers).get('Authorization')).toBe('Bearer sk-1');
});
