import { afterEach, expect, test, vi } from 'vitest';
import { HOSTILE, button, changesOf, enter, field, found, settled, shown } from '../testing/shown';
import type { FileField } from './file-field';
import './file-field';

const PIXEL = new File(['abc'], 'pixel.png', { type: 'image/png' });

afterEach(() => void vi.restoreAllMocks());

async function choose(element: HTMLElement, file: File): Promise<void> {
  const input = found<HTMLInputElement>(element, '[type=file]');
  Object.defineProperty(input, 'files', { value: [file], configurable: true });
  input.dispatchEvent(new Event('change'));
  await settled();
}

test('a file that is chosen is sent inside the request, and shown with name, size and picture', async () => {
  const element = await shown<FileField>('file-field', { field: field({ editor: 'file' }) });
  const changes = changesOf(element);
  await choose(element, PIXEL);
  expect(changes.map((each) => each.value)).toEqual(['data:image/png;base64,YWJj']);
  expect(found<HTMLImageElement>(element, 'img').alt).toBe('pixel.png');
  expect(found(element, '.preview').textContent).toContain('Download pixel.png');
  expect(found(element, '.preview').textContent).toContain('image/png, 3 bytes');
});

test('a file that is dropped is taken as well, and the browser does not open it', async () => {
  const element = await shown<FileField>('file-field', { field: field({ editor: 'file' }) });
  const changes = changesOf(element);
  const drop = new Event('drop', { cancelable: true });
  found(element, '.drop').dispatchEvent(Object.assign(drop, { dataTransfer: { files: [new File(['abc'], HOSTILE)] } }));
  await settled();
  expect(drop.defaultPrevented).toBe(true);
  expect(changes.map((each) => each.value)).toEqual(['data:application/octet-stream;base64,YWJj']);
  expect(found(element, '.preview').textContent).toContain(HOSTILE);
  expect(element.querySelector('img')).toBeNull();
});

test('a file that is removed is no longer sent or shown', async () => {
  const element = await shown<FileField>('file-field', { field: field({ editor: 'file' }), value: 'data:image/png;base64,YWJj' });
  const changes = changesOf(element);
  button(element, 'Remove the file').click();
  await settled();
  expect(changes.map((each) => each.value)).toEqual([undefined]);
  expect(element.querySelector('.preview')).toBeNull();
});

test('an address is sent as it is, and not asked for here', async () => {
  const element = await shown<FileField>('file-field', { field: field({ editor: 'file' }) });
  const changes = changesOf(element);
  await enter(found(element, '[type=url]'), 'https://example.test/a.png');
  expect(changes.map((each) => each.value)).toEqual(['https://example.test/a.png']);
  expect(element.querySelector('img')).toBeNull();
});

test('a file that cannot be read is said, and the value stays', async () => {
  const element = await shown<FileField>('file-field', { field: field({ editor: 'file' }), value: 'data:,old' });
  const changes = changesOf(element);
  vi.spyOn(FileReader.prototype, 'readAsDataURL').mockImplementation(function (this: FileReader) {
    this.onerror?.(new ProgressEvent('error') as ProgressEvent<FileReader>);
  });
  await choose(element, PIXEL);
  expect(changes).toEqual([{ name: 'given', value: 'data:,old', problem: 'pixel.png cannot be read.' }]);
  expect(found(element, '.problem').textContent).toBe('pixel.png cannot be read.');
});
