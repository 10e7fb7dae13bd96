import { afterEach, expect, test, vi } from 'vitest';
import { button, enter, field, found, json, server, settled, shown } from '../testing/shown';
import type { RunView } from './run-view';
import './run-view';
import '../input-form/input-form';
import '../json-field/json-field';
import '../secret-field/secret-field';
import '../text-field/text-field';

const FIELDS = [
  field({ name: 'text', id: 'input-text', default: 'hello' }),
  field({ name: 'shape', id: 'input-shape', editor: 'json' }),
  field({ name: 'token', id: 'input-token', editor: 'secret' }),
];
const ACCEPTED = json({ status: 'starting' }, 202);
const ENDLESS = (): Promise<Response> => new Promise(() => undefined);
const DONE = (): Response => new Response('event: completed\ndata: {"status": "succeeded", "output": "done"}\n\n');

afterEach(() => {
  document.body.replaceChildren();
  vi.unstubAllGlobals();
});

async function view(...answers: Parameters<typeof server>): Promise<{ element: RunView; asked: [string, RequestInit][] }> {
  const asked = server(...answers);
  const element = await shown<RunView>('run-view', { fields: FIELDS, examples: [{ kind: 'predict', name: 'First', input: { text: 'one' } }] });
  await settled();
  return { element, asked };
}

async function press(key: string, given: KeyboardEventInit = {}): Promise<void> {
  document.dispatchEvent(new KeyboardEvent('keydown', { key, ...given }));
  await settled();
}

test('what is typed is run, and its result shown; one at a time', async () => {
  const { element, asked } = await view(ACCEPTED, DONE);
  await enter(found(element, '#input-text'), 'typed');
  button(element, 'Run').click();
  button(element, 'Run').click();
  await vi.waitFor(() => expect(found(element, 'output-value').textContent).toContain('done'));
  expect(asked.map(([, init]) => init.body)).toEqual(['{"input":{"text":"typed"}}', undefined]);
  expect([button(element, 'Run').disabled, button(element, 'Cancel').disabled]).toEqual([false, true]);
});

test('Ctrl and Enter run, Escape cancels, and neither while a dialog is open', async () => {
  const { element, asked } = await view(ACCEPTED, ENDLESS, json({}));
  await press('Escape');
  await press('Enter');
  expect(asked).toHaveLength(0);
  await press('Enter', { ctrlKey: true });
  await vi.waitFor(() => expect(button(element, 'Cancel').disabled).toBe(false));
  expect(asked).toHaveLength(2);
  const dialog = document.createElement('dialog');
  document.body.append(dialog);
  dialog.showModal();
  await press('Escape');
  expect(asked).toHaveLength(2);
  dialog.remove();
  await press('Escape');
  expect(asked.at(-1)?.[0]).toMatch(/\/predictions\/page-[0-9a-f]{16}\/cancel$/);
});

test('what is no value is not sent', async () => {
  const { element, asked } = await view(ACCEPTED, ENDLESS);
  await enter(found(element, '#input-shape'), '[1,');
  button(element, 'Run').click();
  await vi.waitFor(() => expect(document.activeElement?.id).toBe('input-shape'));
  expect(asked).toHaveLength(0);
  expect(found(element, 'json-field .problem').textContent).toContain('This is no JSON');
  await enter(found(element, '#input-shape'), '[1]');
  button(element, 'Run').click();
  await settled();
  expect(asked[0]?.[1].body).toBe('{"input":{"text":"hello","shape":[1]}}');
});

test('what the server refuses stands at its input', async () => {
  const detail = [{ loc: ['body', 'input', 'text'], msg: 'too short' }, { loc: ['body', 'input', 'text'], msg: 'no capital' }];
  const { element } = await view(json({ detail }, 422));
  button(element, 'Run').click();
  await vi.waitFor(() => expect(found(element, 'text-field .problem').textContent).toBe('too short; no capital'));
});

test('a server that was full can be asked again', async () => {
  const { element, asked } = await view(json({ error: 'queue full' }, 429), ACCEPTED, ENDLESS);
  button(element, 'Run').click();
  await vi.waitFor(() => button(element, 'Try again').click());
  await settled();
  expect(asked.map(([, init]) => init.method)).toEqual(['PUT', 'PUT', undefined]);
});

test('the form and its JSON are one request; a secret is starred out there, and sent', async () => {
  const { element, asked } = await view(ACCEPTED, ENDLESS);
  await enter(found(element, '#input-token'), 'hush-1');
  button(element, 'JSON').click();
  await settled();
  const area = found<HTMLTextAreaElement>(element, '#request-json');
  expect(area.value).not.toContain('hush-1');
  await enter(area, area.value.replace('hello', 'from JSON'));
  button(element, 'Form').click();
  await settled();
  expect(found<HTMLTextAreaElement>(element, '#input-text').value).toBe('from JSON');
  button(element, 'Run').click();
  await settled();
  expect(asked[0]?.[1].body).toBe('{"input":{"text":"from JSON","token":"hush-1"}}');
});

test('an example fills the form, and starting over brings the defaults back', async () => {
  const { element } = await view(ENDLESS);
  await enter(found(element, '#input-shape'), '[1,');
  button(element, 'First').click();
  await settled();
  expect(found<HTMLTextAreaElement>(element, '#input-text').value).toBe('one');
  expect(found<HTMLTextAreaElement>(element, '#input-shape').value).toBe('');
  button(element, 'Start over').click();
  await settled();
  expect(element.values).toEqual({ text: 'hello' });
});
