import { expect, test } from 'vitest';
import type { Adapter } from '../api/types';
import { expectedOf, factsOf, labelWords, methodWords, shownName, taughtWords } from './adapter-words';

const of = (given: object): Adapter => ({ id: 'a1', owner: '', pinned: false, shared: [], ...given }) as Adapter;

test('a name has its version; without a name there is the id', () => {
  expect([of({ name: 'support' }), of({ name: 'support', version: 3 }), of({})].map(shownName)).toEqual(['support@v1', 'support@v3', 'a1']);
});

test('what it was taught: examples, labels, method', () => {
  expect(taughtWords(of({ examples: 1, labels: ['a', 'b'] }))).toBe('1 example, 2 labels');
  expect(taughtWords(of({ examples: 4000, labels: [] }))).toBe('4,000 examples');
  expect(labelWords(of({ labels: Array.from({ length: 14 }, (_, n) => `l${n}`) }))).toMatch(/l11 and 2 more$/);
  expect(methodWords(of({ recipe: { method: 'lora', rank: 8 } }))).toBe('method lora of rank 8');
  expect(methodWords(of({ recipe: { method: 'head', rank: 8 } }))).toBe('method head');
});

test('its size, uses, owner, and with whom it is shared', () => {
  expect(factsOf(of({ bytes: 307272, hits: 2, owner: 'ada', shared: ['eve'], pinned: true, parent: 'a0' }))).toEqual(
    ['307 kB', 'used 2 times', 'of ada', 'shared with eve', 'pinned', 'continues a0'],
  );
  expect(factsOf(of({ shared: ['*'] }))).toEqual(['shared with all']);
});

test('a share of right answers is percent, another score is a number, and what is unknown is not said', () => {
  expect(expectedOf(of({ labels: ['a'], score_after: 0.91, score_before: 0.74 }))).toEqual({ after: '91%', before: '74%', noun: 'expected accuracy', share: 0.91 });
  expect(expectedOf(of({ labels: [], score_after: -12.3456 }))).toEqual({ after: '-12.35', before: '', noun: 'expected score', share: null });
  expect(expectedOf(of({}))).toBeNull();
});
