import { expect, test } from 'vitest';
import type { Json } from '../api/types';
import { button, changesOf, enter, field, found, settled, shown } from '../testing/shown';
import type { ListField } from './list-field';
import './list-field';
import '../number-field/number-field';
import '../text-field/text-field';

function listOf(editor: 'text' | 'number', value: Json[]): Promise<ListField> {
  return shown<ListField>('list-field', { field: field({ editor: 'list', label: 'Texts', item: field({ editor }) }), value });
}

function texts(element: HTMLElement): string[] {
  return [...element.querySelectorAll('textarea')].map((each) => each.value);
}

test('items are added at the end, changed and removed in place, in their order', async () => {
  const element = await listOf('text', ['a', 'b']);
  const changes = changesOf(element);
  button(element, 'Add to Texts').click();
  await settled();
  await enter(found(element, '#input-given-2'), 'c');
  button(element, 'Remove Texts 1').click();
  await settled();
  expect(changes.map((each) => each.value)).toEqual([['a', 'b', ''], ['a', 'b', 'c'], ['b', 'c']]);
  expect(texts(element)).toEqual(['b', 'c']);
});

test('a new item has the focus, and a value of its type', async () => {
  const element = await listOf('number', []);
  const changes = changesOf(element);
  button(element, 'Add to Texts').click();
  await settled();
  expect(changes.map((each) => each.value)).toEqual([[0]]);
  expect(document.activeElement).toBe(found(element, '#input-given-0'));
});

test('a list whose last item is removed is left out', async () => {
  const element = await listOf('text', ['a']);
  const changes = changesOf(element);
  button(element, 'Remove Texts 1').click();
  expect(changes.map((each) => each.value)).toEqual([undefined]);
});

test('several lines that are pasted become several items, in place', async () => {
  const element = await listOf('text', ['a', '', 'd']);
  const changes = changesOf(element);
  const paste = new Event('paste', { bubbles: true, cancelable: true });
  found(element, '#input-given-1').dispatchEvent(Object.assign(paste, { clipboardData: { getData: () => 'b\r\n\nc\n' } }));
  expect(changes.map((each) => each.value)).toEqual([['a', 'b', 'c', 'd']]);
  expect(paste.defaultPrevented).toBe(true);
});

test('an item that is no value is a problem of the list, which keeps its items', async () => {
  const element = await listOf('number', [1, 2]);
  const changes = changesOf(element);
  const input = found(element, '#input-given-1');
  Object.defineProperty(input, 'validity', { value: { badInput: true } });
  await enter(input, '');
  expect(changes).toEqual([{ name: 'given', value: [1, 2], problem: 'This is no number.' }]);
});
