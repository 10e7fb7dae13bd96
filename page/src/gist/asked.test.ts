import { expect, test } from 'vitest';
import { askedOf } from './asked';

const KNOWN = [
  { name: 'text', default: '' },
  { name: 'texts', default: null },
  { name: 'method', default: 'auto' },
  { name: 'steps', default: 40 },
];

test('the texts are what was asked, in the order of the form; what stands at its default is not said', () => {
  const input = { adapter: 'a1', method: 'lora', steps: 40, texts: ['two', 'three'], text: 'one' };
  expect(askedOf(input, KNOWN)).toEqual({ items: ['one', 'two', 'three'], examples: 0, labels: [], adapter: 'a1', settings: ['method lora'] });
});

test('rows and pictures are what was asked where there are some', () => {
  expect(askedOf({ rows: [{ age: 3 }], steps: 4 }).items).toEqual([{ age: 3 }]);
  expect(askedOf({ images: ['data:image/png;base64,AA'] }).items).toEqual(['data:image/png;base64,AA']);
});

test('an input of an unknown name is what was asked; where there are only numbers, those are', () => {
  expect(askedOf({ s: 'shown', n: 1 })).toMatchObject({ items: ['shown'], settings: ['n 1'] });
  expect(askedOf({ first_n: 1, m: true }).items).toEqual(['first n 1', 'm true']);
});

test('examples are counted with their labels, each once; a file of them has no count', () => {
  const examples = [{ text: 'x', label: 'b' }, { text: 'y', label: 'a' }, { text: 'z', label: 'b' }];
  expect(askedOf({ examples, steps: 3 })).toMatchObject({ items: [], examples: 3, labels: ['b', 'a'], settings: ['steps 3'] });
  expect(askedOf({ examples_file: 'data:,' }).examples).toBeNull();
});
