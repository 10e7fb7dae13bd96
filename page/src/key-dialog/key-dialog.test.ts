import { beforeEach, expect, test } from 'vitest';
import { keys } from '../keys/keys';
import { HOSTILE, button, found, settled, shown } from '../testing/shown';
import type { KeyDialog } from './key-dialog';
import './key-dialog';

beforeEach(() => keys.give(null));

async function asked(why: string): Promise<{ element: KeyDialog; dialog: HTMLDialogElement }> {
  const element = await shown<KeyDialog>('key-dialog');
  void keys.ask(why);
  await settled();
  return { element, dialog: found<HTMLDialogElement>(element, 'dialog') };
}

async function give(element: HTMLElement, key: string): Promise<void> {
  found<HTMLInputElement>(element, '#key').value = key;
  found(element, 'form').dispatchEvent(new Event('submit', { cancelable: true }));
  await settled();
}

test('it asks only when the server wants a key, and says why, as text', async () => {
  expect(found<HTMLDialogElement>(await shown('key-dialog'), 'dialog').open).toBe(false);
  const { element, dialog } = await asked(HOSTILE);
  expect(dialog.open).toBe(true);
  expect(found(element, '#key-why').textContent).toBe(HOSTILE);
  expect(element.querySelector('img')).toBeNull();
});

test('a key is kept for this tab alone, and nowhere in the document', async () => {
  const { element, dialog } = await asked('a key is needed');
  expect(found<HTMLInputElement>(element, '#key').type).toBe('password');
  await give(element, ' sk-1 ');
  expect(keys.current).toBe('sk-1');
  expect(Object.values(sessionStorage)).toContain('sk-1');
  expect([localStorage.length, document.cookie]).toEqual([0, '']);
  expect(found<HTMLInputElement>(element, '#key').value).toBe('');
  expect(dialog.open).toBe(false);
});

test('a key that was refused is said to be wrong', async () => {
  keys.give('sk-wrong');
  const { element } = await asked('unknown key');
  expect(found(element, 'h2').textContent).toBe('The key is wrong');
  expect(found(element, '#key').getAttribute('aria-invalid')).toBe('true');
  expect(found(element, '[role=alert]').textContent).toBe('unknown key');
});

test.each([
  ['the button', (element: HTMLElement) => button(element, 'Go on without').click()],
  ['Escape', (element: HTMLElement) => found(element, 'dialog').dispatchEvent(new Event('cancel'))],
])('who has none goes on without: %s', async (_, dismiss) => {
  keys.give('sk-wrong');
  const { element, dialog } = await asked('unknown key');
  dismiss(element);
  await settled();
  expect(keys.current).toBeNull();
  expect(dialog.open).toBe(false);
});
