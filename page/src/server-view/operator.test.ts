import { expect, test } from 'vitest';
import type { ServerFigures } from '../api/types';
import { sixOf } from './operator';
import { samplesOf } from './samples';

const WORKER = { kind: 'predict', state: 'ready', slots: 4, running: 1, waiting: 9, crashes: 0, last_crash: null };
const SAMPLES = samplesOf(`cog_prediction_duration_seconds_bucket{kind="predict",phase="total",le="1.0"} 2.0
cog_prediction_duration_seconds_bucket{kind="predict",phase="total",le="+Inf"} 2.0
cog_prediction_duration_seconds_count{kind="predict",phase="total"} 2.0
cog_budget_used_bytes{budget="records"} 900000
cog_budget_limit_bytes{budget="records"} 1000000
process_resident_memory_bytes 100000000
process_start_time_seconds 1000
`);

function figures(given: object = {}): ServerFigures {
  const other = { key: { needed: false, name: '', owner: '', scopes: [] }, files: null, records: null, status: 'READY', versions: {} };
  return { ...other, queue: { most: 10 }, workers: [WORKER], model: { process_memory_bytes: 6e8, adapters_disk_bytes: 2000 }, ...given } as unknown as ServerFigures;
}

test('there are six, each with its unit or limit', () => {
  const six = sixOf(figures(), SAMPLES, 3700 * 1000);
  expect(six.map(({ name, value, detail }) => [name, value, detail])).toEqual([
    ['Waiting', '9', 'of 10 requests at most'],
    ['Running', '1 of 4 slots', 'predictions 1 of 4'],
    ['Time of a prediction', '0.50 s', 'p50 · p99 0.99 s · of 2 ended, waiting included'],
    ['Memory', '700 MB', 'model 600 MB · server 100 MB'],
    ['Disk', '900 kB', 'of 1.00 MB for records · adapters 2.00 kB'],
    ['Crashes', '0', 'up 45 min'],
  ]);
});

test('what is nearly full, or has crashed, is marked', () => {
  const marked = (given: object): string[] => sixOf(figures(given), SAMPLES, 0).filter((each) => each.isOdd).map((each) => each.name);
  expect(marked({})).toEqual(['Waiting', 'Disk']);
  expect(marked({ queue: { most: null }, workers: [{ ...WORKER, crashes: 2, last_crash: 'killed' }] })).toEqual(['Disk', 'Crashes']);
});

test('workers of a kind share one queue', () => {
  const six = sixOf(figures({ workers: [WORKER, WORKER] }), []);
  expect(six[0]?.value).toBe('9');
  expect([six[1]?.value, six[1]?.detail]).toEqual(['2 of 8 slots', 'predictions 2 of 8']);
});

test('without the samples, what is unknown is a dash', () => {
  expect(sixOf(figures({ model: {} }), []).map((each) => each.value)).toEqual(['9', '1 of 4 slots', '–', '–', '–', '0']);
});
