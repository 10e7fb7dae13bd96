/** One prediction or training, from the click to its end: sent, followed, cancelled. */
import { Refused, Unreachable, call, getJson, refusal, sendJson } from '../api/client';
import { follow, type RunEvent } from '../api/events';
import type { Json, Kind, RunRecord, Values } from '../api/types';
import { connection } from '../connection/connection';
import { cellText, wholeText } from '../output-value/shapes';
import { Course } from './steps';

export type Phase = 'sending' | 'queued' | 'running' | 'succeeded' | 'failed' | 'canceled' | 'refused';

/** Stands for an answer that is being asked for. */
export const ASKING = '…';
const MOST_LOG = 400_000;
const SETUP_PAUSE = 1000;
const ENDS: readonly string[] = ['succeeded', 'failed', 'canceled'];

export class Run extends EventTarget {
  phase: Phase = 'sending';
  position: number | null = null;
  logs = '';
  chunks: Json[] = [];
  output: Json | undefined;
  error: string | null = null;
  refused: Refused | null = null;
  metrics: Record<string, Json> = {};
  /** The newest answer before the end; its step is 0 before any. */
  early: { predictions: Json[]; expected: string; step: number } | null = null;
  /** Whether an answer came before any step, as those of `auto` do. */
  hasFirstAnswer = false;
  report: Record<string, Json> | null = null;
  /** What is answered without the examples, where it was asked; as long as it is not known, dots. */
  untaught: string | null = null;
  readonly course = new Course();
  private began: number | null = null;
  seconds: number | null = null;
  private readonly stop = new AbortController();

  constructor(
    readonly kind: Kind,
    readonly input: Values,
    readonly id: string = newId(),
  ) {
    super();
  }

  get isOver(): boolean {
    return ENDS.includes(this.phase) || this.phase === 'refused';
  }

  /** Send it, and follow it to its end. */
  async start(): Promise<void> {
    this.began = performance.now();
    try {
      await this.send();
      await this.follow();
    } catch (error) {
      this.fail(error);
    }
  }

  /** Follow one that the server knows already. */
  async follow(): Promise<void> {
    for await (const event of follow(this.kind, this.id, this.stop.signal)) this.take(event);
  }

  /** Ask the same without the examples, where it was taught some and no answer from before is in the output. */
  async askUntaught(): Promise<void> {
    const { examples, examples_file: file, ...others } = this.input;
    if (this.phase !== 'succeeded' || !(file || (Array.isArray(examples) ? examples.length > 0 : examples))) return;
    this.untaught = ASKING;
    this.changed();
    const output = await outcome(this.kind, others).catch(() => null); // it is no more than a comparison
    this.untaught = output === null ? null : wholeText(output);
    this.changed();
  }

  /** End it early; where it was not sent yet, it never is. */
  async cancel(): Promise<void> {
    if (this.phase === 'sending') return this.leave();
    try {
      await sendJson('POST', `${this.kind}/${encodeURIComponent(this.id)}/cancel`);
    } catch (error) {
      if (!(error instanceof Refused && error.status === 404)) throw error; // it has just ended
    }
  }

  /** Follow it no longer: it goes on, and its connection is free for another. */
  forsake(): void {
    this.stop.abort();
  }

  private leave(): void {
    this.forsake();
    this.end('canceled');
  }

  private async send(): Promise<void> {
    const headers = { 'Content-Type': 'application/json', Prefer: 'respond-async' };
    const init = { method: 'PUT', headers, body: JSON.stringify({ input: this.input }), signal: this.stop.signal };
    const answer = await whenUp(() => call(`${this.kind}/${encodeURIComponent(this.id)}`, init), this.stop.signal);
    if (!answer.ok) throw await refusal(answer);
    this.phase = 'queued';
    this.changed();
  }

  private take({ name, data }: RunEvent): void {
    const about = (data ?? {}) as Record<string, Json>;
    if (name === 'queued') this.position = about.position as number;
    else if (name === 'start') this.phase = 'running';
    else if (name === 'log') this.log(String(about.data));
    else if (name === 'metric') this.metric(String(about.name), about.value ?? null);
    else if (name === 'output') this.chunks.push(about.chunk ?? null);
    else if (name === 'completed') this.complete(about as unknown as RunRecord);
    this.changed();
  }

  private log(text: string): void {
    this.logs += text;
    if (this.logs.length > 2 * MOST_LOG) this.logs = this.logs.slice(-MOST_LOG); // not at each line: it copies
    this.course.log(text);
  }

  private metric(name: string, value: Json): void {
    this.metrics[name] = value;
    this.course.metric(name, value);
    if (name === 'early') this.early = earlyOf(value);
    this.hasFirstAnswer ||= this.early?.step === 0;
    if (name === 'adaptation.report') this.readReport(value);
  }

  private complete(record: RunRecord): void {
    this.output = (record.output ?? null) as Json;
    this.error = record.error ?? null;
    this.logs = (record.logs ?? this.logs).slice(-MOST_LOG);
    const output = this.output as { report?: Json } | null;
    if (output && typeof output === 'object') this.readReport(output.report ?? null);
    const time = record.metrics?.predict_time;
    this.seconds = typeof time === 'number' ? time : null;
    this.end(record.status as Phase);
  }

  private readReport(report: Json): void {
    if (report === null || typeof report !== 'object' || Array.isArray(report)) return;
    this.report = report;
    this.course.report(report.losses, report.gradient_norms);
  }

  private fail(error: unknown): void {
    if (this.isOver) return;
    this.error = error instanceof Error ? error.message : String(error);
    if (error instanceof Refused) this.refused = error;
    this.end('refused');
  }

  private end(phase: Phase): void {
    this.phase = phase;
    if (this.began !== null) this.seconds = (performance.now() - this.began) / 1000;
    this.changed();
  }

  private changed(): void {
    this.dispatchEvent(new Event('change'));
  }
}

/** Ask as soon as the server can be reached: the id makes sure that it runs once. */
async function whenUp(ask: () => Promise<Response>, signal: AbortSignal): Promise<Response> {
  let wasGone = false;
  for (;;) {
    try {
      await connection.untilUp(signal);
      const answer = await ask();
      if (!(wasGone && answer.status === 503)) return answer;
      await later(signal); // it is back, and its model is being set up
    } catch (error) {
      if (!(error instanceof Unreachable)) throw error;
      wasGone = true;
    }
  }
}

function later(signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    setTimeout(resolve, SETUP_PAUSE);
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
  });
}

/** Run, and return the output; for those who show no progress. */
export async function outcome(kind: Kind, input: Values): Promise<Json> {
  const run = new Run(kind, input);
  await run.start();
  if (run.phase === 'succeeded') return run.output ?? null;
  throw new Error(run.error ?? `The run was ${run.phase}.`);
}

/** Return a record of the server's. */
export function recordOf(kind: Kind, id: string): Promise<RunRecord> {
  return getJson<RunRecord>(`${kind}/${encodeURIComponent(id)}`);
}

/** Read an early answer; a predictor may record anything under its name. */
function earlyOf(value: Json): Run['early'] {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return null;
  const { predictions, expected, step } = value;
  if (!Array.isArray(predictions)) return null;
  return { predictions, expected: cellText(expected), step: typeof step === 'number' ? step : 0 };
}

function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(8));
  return `page-${[...bytes].map((each) => each.toString(16).padStart(2, '0')).join('')}`;
}
