import { expect, test } from 'vitest';
import { parse, type RunEvent } from './events';

function bytes(...parts: string[]): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  return new ReadableStream({
    start(controller) {
      for (const part of parts) controller.enqueue(encoder.encode(part));
      controller.close();
    },
  });
}

async function all(...parts: string[]): Promise<RunEvent[]> {
  const found: RunEvent[] = [];
  for await (const event of parse(bytes(...parts))) found.push(event);
  return found;
}

test('events are cut where they end, wherever the bytes are', async () => {
  const found = await all('id: 1\nevent: sta', 'rt\ndata: {"a": 1}\n', '\n:\n\nid: 2\nevent: log\ndata: "é"\n\n');
  expect(found).toEqual([
    { id: '1', name: 'start', data: { a: 1 } },
    { id: '2', name: 'log', data: 'é' },
  ]);
});

test('a comment and an event that has not ended are no events', async () => {
  expect(await all(':\n\n', 'event: start\ndata: {}')).toEqual([]);
});

test('data with a colon and spaces stays whole', async () => {
  expect(await all('data: {"url": "http://x:1/  "}\n\n')).toEqual([
    { id: '', name: 'message', data: { url: 'http://x:1/  ' } },
  ]);
});

test.each(['\n\n', '\r\n\r\n'])('an end that is cut into its letters is an end', async (end) => {
  const found = await all('event: a\ndata: 1', ...end, 'event: b\ndata: 2', ...end);
  expect(found.map((each) => [each.name, each.data])).toEqual([['a', 1], ['b', 2]]);
});

test('an event of many parts costs as much as it is long', async () => {
  const parts = Array.from({ length: 4000 }, () => 'x'.repeat(8000));
  const began = performance.now();
  const found = await all('data: "', ...parts, '"\n\n');
  expect((found[0]?.data as string).length).toBe(32_000_000);
  expect(performance.now() - began).toBeLessThan(4000);
});
