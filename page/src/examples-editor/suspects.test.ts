import { expect, test } from 'vitest';
import { suspectsOf } from './suspects';

const ROWS = [{ text: 'a', label: 'refnd' }, { text: 'b', label: 'refund' }, { text: 'b', label: 'other' }];
const SIMILAR = "similar labels: 'refnd' (1) may be meant as 'refund' (7)";
const CONTRARY = "contradictory rows: 'b' is 'other' in row 3 and 'refund' in row 2";

test('a label that may be misspelled is marked in each of its rows, with the one that is meant', () => {
  expect(suspectsOf([SIMILAR], ROWS, 'label').map(({ place, label }) => [place, label])).toEqual([[0, 'refund']]);
});

test('a label that the answers to its row contradict is marked, once, with the one that they give', () => {
  const doubt = "labels look wrong by answers that have not seen their rows: 'refnd' in row 1 may be meant as 'other', 'other' in row 3 may be meant as 'refund'";
  const found = (...said: string[]): [number, string][] => suspectsOf(said, ROWS, 'label').map(({ place, label }) => [place, label]);
  expect(found(doubt)).toEqual([[0, 'other'], [2, 'refund']]);
  expect(found(SIMILAR, doubt)).toEqual([[0, 'refund'], [2, 'refund']]);
  expect(found(doubt.replace('row 3', 'row 2'))).toEqual([[0, 'other']]);
});

test('of two rows that contradict the later one is marked', () => {
  expect(suspectsOf([CONTRARY], ROWS, 'label').map(({ place, label }) => [place, label])).toEqual([[2, 'refund']]);
});

test('what was put right since, or is not there, is no suspect', () => {
  const right = ROWS.map((each) => ({ ...each, label: 'refund' }));
  expect(suspectsOf([SIMILAR, CONTRARY], right, 'label')).toEqual([]);
  expect(suspectsOf([CONTRARY.replace('row 3', 'row 99')], ROWS, 'label')).toEqual([]);
  expect(suspectsOf('none', ROWS, 'label')).toEqual([]);
});
