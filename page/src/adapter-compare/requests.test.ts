import { expect, test } from 'vitest';
import type { Adapter } from '../api/types';
import { comparedInputs, typedOf } from './requests';

const FORM = { text: 'one', texts: ['two'], examples: [{ text: 'a', label: 'b' }], steps: 40, adapter: 'old' };
const ADAPTER = { id: 'abc' } as Adapter;

test('an adapter is asked without what would make it learn again', () => {
  expect(comparedInputs(FORM, 'x\n\ny ', ADAPTER, ['b'])).toEqual({
    text: '',
    texts: ['x', 'y'],
    steps: 40,
    adapter: 'abc',
  });
});

test('the base is asked about the same labels', () => {
  expect(comparedInputs({}, 'x', null, ['b', 'c'])).toEqual({ text: '', texts: ['x'], labels: ['b', 'c'] });
});

test('a predictor without texts is asked what the form says', () => {
  expect(comparedInputs({ image: 'data:,' }, '', ADAPTER, [])).toEqual({ image: 'data:,', adapter: 'abc' });
});

test('the texts of the form stand one a line', () => {
  expect(typedOf(FORM)).toBe('one\ntwo');
});
