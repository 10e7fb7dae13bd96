import { expect, test } from 'vitest';
import type { Row } from '../output-value/shapes';
import { emptyCells, problemsByRow } from './problems';

test('a refusal of the model is about its rows', () => {
  const said = `Prediction failed: examples refused (counted from 1):
  row 2: the text is empty (''): write one or drop the row
  row 30: no target among ['text']
  and 4 more`;
  expect([...problemsByRow(said)]).toEqual([
    [1, "the text is empty (''): write one or drop the row"],
    [29, "no target among ['text']"],
  ]);
});

test('an error about something else is about no row', () => {
  expect(problemsByRow('the rows are too many').size).toBe(0);
});

test('empty cells are found before anything is sent', () => {
  const rows: Row[] = [{ text: 'a', label: 'b' }, { text: ' ', label: 'b' }, { text: 'c' }];
  expect([...emptyCells(rows, ['text', 'label'])]).toEqual([[1, 'text: empty'], [2, 'label: empty']]);
});
