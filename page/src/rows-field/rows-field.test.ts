import { expect, test } from 'vitest';
import { button, changesOf, enter, field, found, settled, shown } from '../testing/shown';
import type { RowsField } from './rows-field';
import './rows-field';

test('a row is a form of its fields; numbers stay numbers', async () => {
  const element = await shown<RowsField>('rows-field', { field: field({ editor: 'rows', label: 'Rows' }), value: [{ age: 3, name: 'x' }] });
  const changes = changesOf(element);
  await enter(found(element, '[aria-label="age of Rows 1"]'), '4.5');
  button(element, 'Add a row').click();
  await settled();
  expect(changes.map((each) => each.value)).toEqual([[{ age: 4.5, name: 'x' }], [{ age: 4.5, name: 'x' }, { age: 4.5, name: 'x' }]]);
});

test('CSV becomes rows with numbers, and many rows a table', async () => {
  const element = await shown<RowsField>('rows-field', { field: field({ editor: 'rows' }) });
  const changes = changesOf(element);
  await enter(found(element, 'textarea'), 'age,name\n1,a\n2,b\n3,c\n4,d', 'change');
  expect(changes[0]?.value).toEqual([{ age: 1, name: 'a' }, { age: 2, name: 'b' }, { age: 3, name: 'c' }, { age: 4, name: 'd' }]);
  await settled();
  expect(element.querySelector('examples-table')).not.toBeNull();
});
