import { expect, test } from 'vitest';
import { hashOf, routeOf } from './route';

test.each([
  ['', 'predict', 'predictions', null],
  ['#/train', 'train', 'predictions', null],
  ['#/history/trainings', 'history', 'trainings', null],
  ['#/predictions/page-1', 'history', 'predictions', 'page-1'],
  ['#/adapters/a%2Fb', 'history', 'adapters', 'a/b'],
  ['#/predictions/%', 'history', 'predictions', null],
  ['#/<script>', 'predict', 'predictions', null],
])('%s is the view %s', (hash, view, listed, id) => {
  expect(routeOf(hash)).toEqual({ view, listed, id });
});

test('what is written is read', () => {
  expect(routeOf(hashOf('trainings', 'a/b c')).id).toBe('a/b c');
  expect(routeOf(hashOf('adapters'))).toEqual({ view: 'history', listed: 'adapters', id: null });
});
