import { afterEach, expect, test, vi } from 'vitest';
import type { RunRecord } from '../api/types';
import { json, server } from '../testing/shown';
import { WholeRecords } from './whole-records';

const STORED = { stored: 'sha256:00' };
const WHOLE = { input: { images: ['data:image/png;base64,x'] }, output: { predictions: ['boot'] } };

afterEach(() => vi.unstubAllGlobals());

function listed(id: string, given: object): RunRecord {
  return { id, status: 'succeeded', ...given } as RunRecord;
}

test('what a list leaves out is read once, and the rest is as it was', async () => {
  const asked = server(json(WHOLE));
  const records = [listed('large', { input: STORED, output: STORED, logs: 'kept' }), listed('small', { input: { text: 'a' } })];
  const whole = new WholeRecords();
  const then = vi.fn();
  for (let turn = 0; turn < 2; turn += 1) await whole.read('predictions', records, then);
  expect(asked.map(([url]) => new URL(url).pathname)).toEqual(['/predictions/large']);
  expect(then).toHaveBeenCalledTimes(1);
  expect(records.map((each) => whole.complete(each))).toEqual([{ ...records[0], ...WHOLE }, records[1]]);
});

test.each([
  ['too large', () => new Response('{}', { headers: { 'content-length': '5000000' } })],
  ['gone', json({}, 404)],
  ['a reference there too', json({ input: STORED })],
])('one that is %s is not asked for again', async (_, answer) => {
  const asked = server(answer);
  const record = listed('large', { input: STORED });
  const whole = new WholeRecords();
  for (let turn = 0; turn < 3; turn += 1) await whole.read('predictions', [record], () => undefined);
  expect(asked).toHaveLength(1);
  expect(whole.complete(record)).toEqual(record);
});
