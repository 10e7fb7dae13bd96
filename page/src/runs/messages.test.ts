import { expect, test } from 'vitest';
import { faultOf, plainError, plainProblem } from './messages';

test.each([
  ['Prediction failed: Async prediction failed: InputError: no input.', 'No input.'],
  ['Prediction failed: ValueError: 3 is odd', '3 is odd'],
  ['Training failed: InputError: none', 'None'],
  ['Prediction failed: Prediction failed: ValueError: no', 'No'],
  ['Prediction failed: InputError: none. Send `examples`.', 'None. Send examples.'],
  ['queue full: wait', 'queue full: wait'],
])('a failure is said without what the server calls it: %s', (error, said) => {
  expect(plainError(error)).toBe(said);
});

test.each([
  ['Prediction failed: InputError: `examples`: row 1 is empty', { field: 'examples', message: 'Row 1 is empty' }],
  ["Prediction failed: AdapterNotFound: adapter 'x' is not known", { field: 'adapter', message: "Adapter 'x' is not known" }],
  ['Prediction failed: InputError: text has no use here', { field: null, message: 'Text has no use here' }],
  ['Prediction failed: InputError: none is known. Send `examples`, or an `adapter`.', { field: 'examples', message: 'None is known. Send examples, or an adapter.' }],
  ['Prediction failed: ValueError: `other` is odd', { field: null, message: 'Other is odd' }],
])('a failure knows its input: %s', (error, fault) => {
  expect(faultOf(error, { adapter: 'x', text: '' }, ['adapter', 'text', 'examples'])).toEqual(fault);
});

test('no pattern is shown to a reader', () => {
  expect(plainProblem('"qlora" does not match "^(auto|lora)$"', ['auto', 'lora'])).toBe('"qlora" is none of auto, lora.');
  expect(plainProblem('"NOT" does not match "^[a-z]$"', [])).toBe('"NOT" does not have the form that is needed here.');
  expect(plainProblem('0 is less than the minimum of 1', [])).toBe('0 is less than the minimum of 1');
});
