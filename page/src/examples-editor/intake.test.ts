import { expect, test } from 'vitest';
import { captionedRows, isRows, rowsOfFiles, rowsOfText } from './intake';

test('one line is typed on; lines, lists and objects are rows', () => {
  expect(['a word', 'text,label\na,b', ' [1]', '{"a": 1}'].map(isRows)).toEqual([false, true, true, true]);
});

test('numbers are numbers, and texts that look like them are texts', () => {
  expect(rowsOfText('text,age,label\n12,3.5,1\n').rows).toEqual([{ text: '12', age: 3.5, label: '1' }]);
});

test('a text without rows says so, nothing says nothing', () => {
  expect(rowsOfText('[]')).toEqual({ rows: [], problems: ['No rows were found.'] });
  expect(rowsOfText(' ')).toEqual({ rows: [], problems: [] });
});

test('files of rows and pictures are taken together; one that cannot be read is said', async () => {
  const picture = new File(['x'], 'x.png', { type: 'image/png' });
  const gone = Object.assign(new File([], 'gone'), { text: () => Promise.reject(new Error('gone')) });
  const found = await rowsOfFiles([new File(['input,label\na,b\n'], 'rows.csv'), picture, gone], 'input', { label: 'c' });
  expect(found.rows).toEqual([{ input: 'a', label: 'b' }, { input: 'data:image/png;base64,eA==', label: 'c' }]);
  expect(found.problems).toEqual([expect.stringContaining('gone cannot be read')]);
});

test('a picture is described by the text of its name, or by its name', async () => {
  const picture = (name: string): File => new File(['x'], name, { type: 'image/png' });
  const files = [picture('A.png'), new File(['small b\n'], 'x.txt', { type: 'text/plain' }), picture('x.png')];
  expect((await captionedRows(files, 'image', 'caption')).rows).toEqual([
    { image: 'data:image/png;base64,eA==', caption: 'A' },
    { image: 'data:image/png;base64,eA==', caption: 'small b' },
  ]);
});
