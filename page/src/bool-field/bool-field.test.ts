import { expect, test } from 'vitest';
import { changesOf, field, found, shown } from '../testing/shown';
import type { BoolField } from './bool-field';
import './bool-field';

test('yes and no are sent as such', async () => {
  const element = await shown<BoolField>('bool-field', { field: field({ editor: 'bool' }), value: true });
  const changes = changesOf(element);
  const box = found<HTMLInputElement>(element, 'input');
  expect(box.checked).toBe(true);
  box.click();
  box.click();
  expect(changes.map((each) => each.value)).toEqual([false, true]);
});

test.each([undefined, 'yes', 1])('what is not true is not ticked: %j', async (value) => {
  const element = await shown<BoolField>('bool-field', { field: field({ editor: 'bool' }), value });
  expect(found<HTMLInputElement>(element, 'input').checked).toBe(false);
});

test('a box that was refused says so', async () => {
  const element = await shown<BoolField>('bool-field', { field: field({ editor: 'bool' }), problem: 'must be true' });
  expect(found(element, 'input').getAttribute('aria-invalid')).toBe('true');
  expect(found(element, '.problem').textContent).toBe('must be true');
});
