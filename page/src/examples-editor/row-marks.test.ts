import { expect, test } from 'vitest';
import { button, shown, toldBy } from '../testing/shown';
import type { RowMarks } from './row-marks';
import './row-marks';

const SUSPECTS = [{ place: 1, why: 'Is “refnd” meant as “refund”?', label: 'refund' }, { place: 4, why: 'Is it?', label: 'access' }];

test('problems stand in the order of their rows, and a click shows the row', async () => {
  const element = await shown<RowMarks>('row-marks', { problems: new Map([[3, 'empty'], [0, 'odd']]) });
  expect([...element.querySelectorAll('.problem')].map((each) => each.textContent.trim())).toEqual(['Row 1: odd', 'Row 4: empty']);
  const showing = toldBy(element, 'row-show');
  button(element, 'Row 4').click();
  expect(showing).toHaveLength(1);
});

test('a suspicious label is put right alone, or with all others', async () => {
  const element = await shown<RowMarks>('row-marks', { suspects: SUSPECTS });
  const right = toldBy(element, 'put-right');
  button(element, 'Change row 2 to refund and teach again').click();
  button(element, 'Change all 2 and teach again').click();
  expect(right).toEqual([[SUSPECTS[0]], SUSPECTS]);
});

test('nothing is said of rows that are as they should be', async () => {
  expect((await shown<RowMarks>('row-marks', {})).textContent).toBe('');
});
