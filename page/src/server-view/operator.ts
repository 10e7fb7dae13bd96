/** Chooses the six numbers that an operator asks for first. */
import type { ServerFigures, WorkerFigures } from '../api/types';
import { seconds, span } from '../gist/age';
import { bytes } from './figures';
import { quantile, valueOf, type Sample } from './samples';

export interface Figure {
  name: string;
  value: string;
  detail: string;
  /** Between 0 and 1, where there is a limit. */
  share: number | null;
  isOdd: boolean;
}

const FULL = 0.8;
const RUNS = 'cog_prediction_duration_seconds';
const NOUNS = { predict: 'predictions', train: 'trainings' };

/** Return the six figures, in the order in which they are read. */
export function sixOf(figures: ServerFigures, samples: Sample[], now = Date.now()): Figure[] {
  return [waiting(figures), running(figures.workers), lasting(samples), memory(figures, samples), disk(figures, samples), crashes(figures.workers, samples, now)];
}

function waiting({ workers, queue: { most } }: ServerFigures): Figure {
  const count = sum([...new Map(workers.map((each) => [each.kind, each.waiting])).values()]); // workers of a kind share a queue
  const share = most === null ? null : count / most;
  const detail = most === null ? 'requests' : `of ${most.toLocaleString('en')} requests at most`;
  return { name: 'Waiting', value: count.toLocaleString('en'), detail, share, isOdd: (share ?? 0) > FULL };
}

function running(workers: WorkerFigures[]): Figure {
  const [count, slots] = [sum(workers.map((each) => each.running)), sum(workers.map((each) => each.slots))];
  const kinds = [...new Set(workers.map((each) => each.kind))].map((kind) => {
    const its = workers.filter((each) => each.kind === kind);
    return `${NOUNS[kind]} ${sum(its.map((each) => each.running))} of ${sum(its.map((each) => each.slots))}`;
  });
  return { name: 'Running', value: `${count} of ${slots} slots`, detail: kinds.join(' · '), share: slots === 0 ? null : count / slots, isOdd: false };
}

function lasting(samples: Sample[]): Figure {
  const of = { kind: 'predict', phase: 'total' };
  const [half, most] = [0.5, 0.99].map((share) => quantile(samples, RUNS, of, share));
  const count = valueOf(samples, `${RUNS}_count`, of) ?? 0;
  const isKnown = typeof half === 'number' && typeof most === 'number';
  return {
    name: 'Time of a prediction',
    value: isKnown ? `${seconds(half)}` : '–',
    detail: isKnown ? `p50 · p99 ${seconds(most)} · of ${count.toLocaleString('en')} ended, waiting included` : 'none has ended yet',
    share: null,
    isOdd: false,
  };
}

function memory({ model }: ServerFigures, samples: Sample[]): Figure {
  const [process, device] = [model.process_memory_bytes, model.device_memory_bytes];
  const server = valueOf(samples, 'process_resident_memory_bytes');
  const parts = [
    typeof process === 'number' && `model ${bytes(process)}`,
    server !== null && `server ${bytes(server)}`,
    typeof device === 'number' && device > 0 && `on the device ${bytes(device)}`,
  ];
  const all = (process ?? 0) + (server ?? 0);
  return { name: 'Memory', value: all > 0 ? bytes(all) : '–', detail: parts.filter(Boolean).join(' · '), share: null, isOdd: false };
}

function disk({ model, records }: ServerFigures, samples: Sample[]): Figure {
  const [used, most] = ['used', 'limit'].map((each) => valueOf(samples, `cog_budget_${each}_bytes`, { budget: 'records' }));
  const adapters = model.adapters_disk_bytes;
  const share = typeof used === 'number' && typeof most === 'number' && most > 0 && most < Infinity ? used / most : null;
  const parts = [
    share !== null && `of ${bytes(most ?? 0)} for records`,
    typeof adapters === 'number' && `adapters ${bytes(adapters)}`,
    records !== null && records,
  ];
  return {
    name: 'Disk',
    value: typeof used === 'number' ? bytes(used) : '–',
    detail: parts.filter(Boolean).join(' · '),
    share,
    isOdd: records !== null || (share ?? 0) > FULL,
  };
}

function crashes(workers: WorkerFigures[], samples: Sample[], now: number): Figure {
  const count = sum(workers.map((each) => each.crashes));
  const start = valueOf(samples, 'process_start_time_seconds');
  const last = workers.map((each) => each.last_crash).find((each) => each !== null);
  const parts = [start !== null && `up ${span(Math.max(0, now / 1000 - start))}`, last && `the last: ${last.slice(0, 120)}`];
  return { name: 'Crashes', value: count.toLocaleString('en'), detail: parts.filter(Boolean).join(' · '), share: null, isOdd: count > 0 };
}

function sum(values: number[]): number {
  return values.reduce((one, other) => one + other, 0);
}
