import { expect, test } from 'vitest';
import type { Adapter } from '../api/types';
import type { Answer } from '../gist/answered';
import { comparedInputs, differenceWords, differing, gainOf, typedOf } from './requests';

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

test('labels are not sent where the predictor takes none', () => {
  expect(comparedInputs({ images: [] }, '', null, ['b'], ['images'])).toEqual({ images: [] });
});

const said = (value: string | number, score: number | null = null): Answer => ({ value, score, before: null });

test('what differs from the first answer that there is, is marked', () => {
  expect(differing([said('a'), said('b'), said('a')])).toEqual([false, true, false]);
  expect(differing([null, said(1), said(2)])).toEqual([false, false, true]);
});

test('at a glance: how many inputs have different answers, or that only the scores differ', () => {
  const [same, other, surer] = [[said('a', 0.5), said('a', 0.5)], [said('a'), said('b')], [said('a', 0.5), said('a', 0.75)]];
  expect(differenceWords([same, other])).toBe('1 of 2 inputs has different answers.');
  expect(differenceWords([same])).toBe('All answers are the same.');
  expect(differenceWords([surer])).toBe('All answers are the same; their scores are not.');
  expect([gainOf(0.75, 0.5), gainOf(0.5, 0.75), gainOf(0.5, 0.5), gainOf(null, 1)]).toEqual(['+25', '−25', '', '']);
});

test('the texts of the form stand one a line', () => {
  expect(typedOf(FORM)).toBe('one\ntwo');
});
