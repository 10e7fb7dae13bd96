import { expect, test } from 'vitest';
import { button, changesOf, enter, field, found, settled, shown } from '../testing/shown';
import type { FilesField } from './files-field';
import './files-field';

test('files are chosen together, named by address, and removed', async () => {
  const element = await shown<FilesField>('files-field', { field: field({ editor: 'files', label: 'Images' }) });
  const changes = changesOf(element);
  const input = found<HTMLInputElement>(element, '[type=file]');
  const files = [new File(['abc'], 'a.png', { type: 'image/png' }), new File(['x'], 'b.txt', { type: 'text/plain' })];
  Object.defineProperty(input, 'files', { value: files, configurable: true });
  input.dispatchEvent(new Event('change'));
  await settled();
  await enter(found(element, '[type=url]'), 'https://files.example/c.png', 'change');
  button(element, 'Remove Images 2').click();
  await settled();
  expect(changes.at(-1)?.value).toEqual(['data:image/png;base64,YWJj', 'https://files.example/c.png']);
  expect(element.querySelectorAll('img')).toHaveLength(1); // another server is not called
});
