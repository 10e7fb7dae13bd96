/** Reads server-sent events, and follows a run through breaks of the connection. */
import { connection } from '../connection/connection';
import { Unreachable, call, refusal } from './client';
import type { Json, Kind } from './types';

export interface RunEvent {
  id: string;
  name: string;
  data: Json;
}

const END = /\r?\n\r?\n/;

/** Yield the events of a stream of bytes. */
export async function* parse(body: ReadableStream<Uint8Array>): AsyncGenerator<RunEvent> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let parts: string[] = []; // of an event that has not ended: joined once, however many they are
  let tail = ''; // an end may lie in two parts
  try {
    for (;;) {
      const { done, value } = await reader.read().catch(() => Promise.reject(new Unreachable()));
      if (done) return;
      const text = decoder.decode(value, { stream: true });
      const isEnd = END.test(tail + text);
      parts.push(text);
      tail = (tail + text).slice(-3);
      if (!isEnd) continue;
      const blocks = parts.join('').split(END);
      parts = [blocks.pop() ?? ''];
      for (const block of blocks) {
        const event = read(block);
        if (event) yield event;
      }
    }
  } finally {
    void reader.cancel().catch(() => undefined);
  }
}

function read(block: string): RunEvent | null {
  const event = { id: '', name: 'message', data: [] as string[] };
  for (const line of block.split(/\r?\n/)) {
    const [, field, value = ''] = /^([^:]*):? ?(.*)$/s.exec(line) ?? [];
    if (field === 'id') event.id = value;
    else if (field === 'event') event.name = value;
    else if (field === 'data') event.data.push(value);
  }
  if (event.data.length === 0) return null;
  return { ...event, data: JSON.parse(event.data.join('\n')) as Json };
}

/** Yield a run's events until its end, whatever becomes of the connection meanwhile. */
export async function* follow(
  kind: Kind,
  id: string,
  signal: AbortSignal,
): AsyncGenerator<RunEvent> {
  let last = '0';
  for (;;) {
    try {
      for await (const event of once(kind, id, last, signal)) {
        last = event.id || last;
        yield event;
        if (event.name === 'completed') return;
      }
      connection.lost(); // ended without the last event: the server was going down
    } catch (error) {
      if (signal.aborted || !(error instanceof Unreachable)) throw error;
      connection.lost();
    }
    await connection.untilUp(signal);
  }
}

async function* once(
  kind: Kind,
  id: string,
  after: string,
  signal: AbortSignal,
): AsyncGenerator<RunEvent> {
  const headers = { Accept: 'text/event-stream', 'Last-Event-ID': after };
  const answer = await call(`${kind}/${encodeURIComponent(id)}/events`, { headers, signal });
  if (!answer.ok) throw await refusal(answer);
  if (answer.body) yield* parse(answer.body);
}
