import { expect, test } from 'vitest';
import { HOSTILE, changesOf, enter, field, found, shown } from '../testing/shown';
import type { TextField } from './text-field';
import './text-field';

test('a text grows from one line to many, to a limit', async () => {
  const element = await shown<TextField>('text-field', { field: field({}), value: 'one' });
  const rows = [found(element, 'textarea').getAttribute('rows')];
  for (const value of ['x'.repeat(67), 'a\nb\nc\nd', '\n'.repeat(99)]) {
    element.value = value;
    await element.updateComplete;
    rows.push(found(element, 'textarea').getAttribute('rows'));
  }
  expect(rows).toEqual(['1', '2', '4', '12']);
});

test.each([
  [{}, undefined],
  [{ isRequired: true }, ''],
  [{ default: 'some' }, ''],
])('an empty text is left out where nothing else stands for it: %j', async (given, sent) => {
  const element = await shown<TextField>('text-field', { field: field(given), value: 'x' });
  const changes = changesOf(element);
  await enter(found(element, 'textarea'), '');
  expect(changes.map((each) => each.value)).toEqual([sent]);
});

test('more than the most characters cannot be typed', async () => {
  const element = await shown<TextField>('text-field', { field: field({ maxLength: 20 }) });
  expect(found(element, 'textarea').getAttribute('maxlength')).toBe('20');
});

test('a text is shown and sent as it is', async () => {
  const element = await shown<TextField>('text-field', { field: field({}), value: HOSTILE });
  const changes = changesOf(element);
  const area = found<HTMLTextAreaElement>(element, 'textarea');
  expect(area.value).toBe(HOSTILE);
  await enter(area, `  ${HOSTILE}\n`);
  expect(changes.map((each) => each.value)).toEqual([`  ${HOSTILE}\n`]);
  expect(element.querySelector('img')).toBeNull();
});
