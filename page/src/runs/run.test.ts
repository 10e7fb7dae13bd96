import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Run } from './run';

function stream(...events: [string, unknown][]): Response {
  const text = events.map(([name, data], n) => `id: ${n + 1}\nevent: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
  return new Response(text.join(''), { status: 200 });
}

function server(answers: (() => Response | Promise<Response>)[]): ReturnType<typeof vi.fn> {
  const fetched = vi.fn(() => Promise.resolve(answers.shift()?.() ?? Response.error()));
  vi.stubGlobal('fetch', fetched);
  return fetched;
}

const ACCEPTED = (): Response => new Response('{"status": "starting"}', { status: 202 });
const DONE = (): Response =>
  stream(
    ['queued', { position: 2 }],
    ['start', { status: 'processing' }],
    ['log', { data: 'step 1/2 loss 0.5\n' }],
    ['metric', { name: 'adaptation.step', value: 1 }],
    ['metric', { name: 'adaptation.loss', value: 0.5 }],
    ['output', { chunk: 'a', index: 0 }],
    ['completed', { status: 'succeeded', output: ['a'], logs: 'all\n' }],
  );

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

test('a run is sent under an id of its own, followed, and ends with its record', async () => {
  const fetched = server([ACCEPTED, DONE]);
  const run = new Run('predictions', { text: 'hello' });
  await run.start();
  expect(run.phase).toBe('succeeded');
  expect(run.output).toEqual(['a']);
  expect(run.logs).toBe('all\n');
  expect(run.course.steps).toEqual([{ number: 1, loss: 0.5, norm: null }]);
  const [url, init] = fetched.mock.calls[0] as [string, RequestInit];
  expect(url).toContain(`/predictions/${run.id}`);
  expect(init.method).toBe('PUT');
  expect(init.body).toBe('{"input":{"text":"hello"}}');
});

test('what the server refuses is there by field', async () => {
  const detail = [{ loc: ['body', 'input', 'steps'], msg: 'too few' }];
  server([() => new Response(JSON.stringify({ detail }), { status: 422 })]);
  const run = new Run('predictions', {});
  await run.start();
  expect(run.phase).toBe('refused');
  expect(run.refused?.problems).toEqual([{ field: 'steps', message: 'too few' }]);
});

test('a server that goes away is asked again, from the last event on', async () => {
  const cut = (): Response => stream(['start', {}], ['output', { chunk: 'a', index: 0 }]);
  const alive = (): Response => new Response('{"alive": true}');
  const fetched = server([
    () => Promise.reject(new TypeError('down')),
    alive,
    () => new Response('{"error": "the model is being set up"}', { status: 503 }),
    ACCEPTED,
    cut,
    alive,
    () => stream(['start', {}], ['output', {}], ['completed', { status: 'succeeded', output: 'ab' }]),
  ]);
  const run = new Run('predictions', {});
  const ended = run.start();
  await vi.advanceTimersByTimeAsync(30_000);
  await ended;
  expect(run.phase).toBe('succeeded');
  const last = fetched.mock.calls.at(-1) as unknown as [string, { headers: Headers }];
  expect(last[1].headers.get('Last-Event-ID')).toBe('2');
});

test('a run that was never sent is cancelled without a word to the server', async () => {
  const fetched = server([() => new Promise<Response>(() => undefined)]);
  const run = new Run('predictions', {});
  void run.start();
  await run.cancel();
  expect(run.phase).toBe('canceled');
  expect(fetched).toHaveBeenCalledTimes(1);
});

test.each([
  'text',
  5,
  [1],
  { predictions: { length: 1e9 }, expected: '' },
  { expected: 'x' },
])('an early answer that is none is left out: %j', async (value) => {
  server([ACCEPTED, () => stream(['metric', { name: 'early', value }], ['completed', { status: 'succeeded' }])]);
  const run = new Run('predictions', {});
  await run.start();
  expect(run.early).toBeNull();
});

test('what an early answer expects is text', async () => {
  const value = { predictions: [{ label: 'a' }], expected: { _$litType$: 1 } };
  server([ACCEPTED, () => stream(['metric', { name: 'early', value }], ['completed', { status: 'succeeded' }])]);
  const run = new Run('predictions', {});
  await run.start();
  expect(run.early).toEqual({ predictions: [{ label: 'a' }], expected: '{"_$litType$":1}', step: 0 });
  expect(run.hasFirstAnswer).toBe(true);
});

test('the newest answer before the end stands, and one after steps is no first answer', async () => {
  const [one, two] = [3, 6].map((step) => ({ predictions: [step], expected: `after ${step} of 9 steps`, step }));
  server([ACCEPTED, () => stream(['metric', { name: 'early', value: one }], ['metric', { name: 'early', value: two }], ['completed', { status: 'succeeded' }])]);
  const run = new Run('predictions', {});
  await run.start();
  expect(run.early).toEqual(two);
  expect(run.hasFirstAnswer).toBe(false);
});

test('the end of a very long log is kept', async () => {
  const lines = Array.from({ length: 100 }, (_, n): [string, unknown] => ['log', { data: `${n} ${'x'.repeat(20_000)}\n` }]);
  server([ACCEPTED, () => stream(...lines)]);
  const run = new Run('predictions', {});
  const longest: number[] = [];
  run.addEventListener('change', () => longest.push(run.logs.length));
  void run.start();
  await vi.waitFor(() => expect(run.logs).toContain('99 xxx'));
  expect(Math.max(...longest)).toBeLessThan(900_000);
  expect(run.logs.length).toBeGreaterThanOrEqual(400_000);
});

test('a run that is forsaken is asked for no longer, and does not end', async () => {
  let signal: AbortSignal | null | undefined;
  vi.stubGlobal('fetch', (_: string, init: RequestInit) => {
    signal = init.signal;
    return new Promise((_resolve, reject) => init.signal?.addEventListener('abort', () => reject(new Error('aborted'))));
  });
  const run = new Run('predictions', {}, 'known');
  run.phase = 'running';
  const followed = run.follow().catch((error: Error) => error.message);
  await vi.waitFor(() => expect(signal).toBeDefined());
  run.forsake();
  expect(await followed).toBe('aborted');
  expect(run.phase).toBe('running');
});
