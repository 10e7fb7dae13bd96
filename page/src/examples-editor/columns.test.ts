import { expect, test } from 'vitest';
import { balanceOf, expectedOf, guessOf, mediumOf, missingOf, orderedColumns, renamed, targetOf } from './columns';

const FOREIGN = [{ id: '1', message: 'where is my parcel', topic: 'a' }, { id: '2', message: 'I cannot log in', topic: 'a' }];
const TEXTS = { input: 'text', target: 'label' };

test.each([
  ['Rows of text and label: a list, or JSON', TEXTS],
  ['Rows of prompt, completion', { input: 'prompt', target: 'completion' }],
  ['Such rows, each with a target (a number) or a label', { input: null, target: 'target' }],
  ['Rows of image (a data URI) and caption (the letter)', { input: 'image', target: 'caption' }],
  ['', TEXTS],
])('the names that a task reads stand in its description: %s', (description, expected) => {
  expect(expectedOf(description)).toEqual(expected);
});

test('the input is the first column, the target the last', () => {
  expect(orderedColumns([{ label: 'a', id: 1, text: 'b' }], TEXTS)).toEqual(['text', 'id', 'label']);
  expect(orderedColumns([], TEXTS)).toEqual(['text', 'label']);
});

test('a task of captioned pictures reads these two columns, and other tasks read others', () => {
  const captioned = { input: 'image', target: 'caption' };
  const columns = orderedColumns([{ caption: 'A', image: 'b' }], captioned);
  expect(columns).toEqual(['image', 'caption']);
  expect([missingOf(columns, captioned), targetOf(columns, captioned)]).toEqual([[], 'caption']);
  expect([missingOf(columns, TEXTS), targetOf(columns, TEXTS)]).toEqual([['text', 'label'], null]);
  expect(balanceOf([{ caption: 'A' }, { caption: 'A' }], 'caption')).toBeNull();
});

test('columns of a foreign file are missed, guessed and renamed', () => {
  const columns = ['id', 'message', 'topic'];
  expect(missingOf(columns, TEXTS)).toEqual(['text', 'label']);
  expect(missingOf(['Input', 'target'], TEXTS)).toEqual([]);
  expect([guessOf('text', FOREIGN, columns), guessOf('label', FOREIGN, columns)]).toEqual(['message', 'topic']);
  const names = new Map([['message', 'text'], ['topic', 'label']]);
  expect(renamed(FOREIGN, names, true)[0]).toEqual({ text: 'where is my parcel', label: 'a' });
  expect(renamed(FOREIGN, names)[0]).toEqual({ id: '1', text: 'where is my parcel', label: 'a' });
});

test('classes are counted; numbers and texts are none', () => {
  const rows = (values: unknown[]) => values.map((label) => ({ label: label as string }));
  expect(balanceOf(rows(['a', 'b', 'b', '']), 'label')).toEqual([['b', 2], ['a', 1]]);
  expect(balanceOf(rows([1.5, 2.5]), 'label')).toBeNull();
  expect(balanceOf([{ target: 3 }, { target: 4 }], 'target')).toBeNull();
  expect(balanceOf(rows(Array.from({ length: 20 }, (_, n) => `a sentence ${n}`)), 'label')).toBeNull();
});

test('texts to be answered or written down are no classes, however few they are', () => {
  expect(balanceOf([{ completion: 'a' }, { completion: 'a' }], 'completion')).toBeNull();
  expect(balanceOf([{ target: 'Sort it.' }, { target: 'Take it.' }], 'target')).toBeNull();
  expect(balanceOf([{ target: 'a' }, { target: 'a' }, { target: 'b' }, { target: 'b' }], 'target')).toEqual([['a', 2], ['b', 2]]);
});

test('pictures and sounds are known by what they hold', () => {
  expect(mediumOf([{ input: 'iVBORw0KGgoAAAA', label: 'a' }])).toEqual({ column: 'input', medium: 'image' });
  expect(mediumOf([{ text: 'a' }])).toBeNull();
});
