import { expect, test } from 'vitest';
import { changesOf, enter, field, found, shown } from '../testing/shown';
import type { JsonField } from './json-field';
import './json-field';

const JSON_FIELD = { field: field({ editor: 'json' }), value: { a: 1 } };

test('what is no JSON is said in place, and the last value stays', async () => {
  const element = await shown<JsonField>('json-field', JSON_FIELD);
  const changes = changesOf(element);
  await enter(found(element, 'textarea'), '{"a": 2');
  expect(changes[0]?.value).toEqual({ a: 1 });
  expect(found(element, '.problem').textContent).toContain('This is no JSON');
  expect(found<HTMLTextAreaElement>(element, 'textarea').value).toBe('{"a": 2');
});

test('what is typed stays as it is typed, and is sent as a value', async () => {
  const element = await shown<JsonField>('json-field', JSON_FIELD);
  const changes = changesOf(element);
  await enter(found(element, 'textarea'), '{"a":\n[1,2]}');
  expect(changes).toEqual([{ name: 'given', value: { a: [1, 2] }, problem: undefined }]);
  expect(found<HTMLTextAreaElement>(element, 'textarea').value).toBe('{"a":\n[1,2]}');
  expect(element.querySelector('.problem')).toBeNull();
});

test('a value from elsewhere takes the place of the text', async () => {
  const element = await shown<JsonField>('json-field', JSON_FIELD);
  element.value = [null];
  await element.updateComplete;
  expect(JSON.parse(found<HTMLTextAreaElement>(element, 'textarea').value)).toEqual([null]);
});

test('an empty text leaves the input out', async () => {
  const element = await shown<JsonField>('json-field', JSON_FIELD);
  const changes = changesOf(element);
  await enter(found(element, 'textarea'), ' \n');
  expect(changes.map((each) => each.value)).toEqual([undefined]);
});
