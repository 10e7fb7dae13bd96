import { expect, test } from 'vitest';
import { parseExamples } from './parse';

const ROWS = [
  { text: 'Where is it?', label: 'delivery' },
  { text: 'My money, "please"', label: 'refund' },
];

test.each([
  ['a JSON list', JSON.stringify(ROWS)],
  ['JSON Lines', ROWS.map((each) => JSON.stringify(each)).join('\n')],
  ['CSV', 'text,label\nWhere is it?,delivery\n"My money, ""please""",refund\n'],
  ['CSV with tabs', 'text\tlabel\r\nWhere is it?\tdelivery\r\nMy money, "please"\trefund'],
  ['semicolons', 'text;label\nWhere is it?;delivery\n"My money, ""please""";refund'],
  ['labels with lists', '{"delivery": ["Where is it?"], "refund": ["My money, \\"please\\""]}'],
  ['a byte order mark', `\ufeff${JSON.stringify(ROWS)}`],
])('%s is read', (_, text) => {
  expect(parseExamples(text)).toEqual({ rows: ROWS, problems: [] });
});

test('a line break inside quotes is part of the cell', () => {
  expect(parseExamples('text,label\n"a\nb",c').rows).toEqual([{ text: 'a\nb', label: 'c' }]);
});

test('a bad line is named, and the others are taken', () => {
  const found = parseExamples('{"text": "a", "label": "b"}\n{oops\n{"text": "c", "label": "d"}');
  expect(found.rows).toHaveLength(2);
  expect(found.problems).toEqual(['Line 2 is no object with a name for each value.']);
});

test('a record with other columns is named', () => {
  expect(parseExamples('text,label\na,b,c\nd,e').problems).toEqual([
    'Record 2 has 3 values for 2 columns.',
  ]);
});

test('thousands of mistakes are not thousands of sentences', () => {
  const found = parseExamples(JSON.stringify(Array(5000).fill(1)));
  expect(found.problems).toHaveLength(21);
  expect(found.problems.at(-1)).toBe('And 4980 more.');
});

test('five thousand records are read at once', () => {
  const text = ['text,label', ...Array.from({ length: 5000 }, (_, n) => `"text, ${n}",a`)].join('\n');
  expect(parseExamples(text).rows).toHaveLength(5000);
});
