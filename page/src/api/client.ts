/** Asks the server: with the key, and with errors that say what was wrong. */
import { connection } from '../connection/connection';
import { keys } from '../keys/keys';

/** What the server says of one input. */
export interface Problem {
  field: string;
  message: string;
}

/** The server has answered, and said no. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly problems: Problem[] = [],
    readonly retryAfter: number | null = null,
  ) {
    super(message);
  }
}

/** No answer: the server or the way to it is down. */
export class Unreachable extends Error {
  constructor() {
    super('The server does not answer.');
  }
}

const BASE = new URL('.', document.baseURI);

/** The whole address of one of the server's paths, behind whatever prefix the page is. */
export function address(path: string): string {
  return new URL(path, BASE).href;
}

/** Ask once; where a key is missing or wrong, ask for one and then again. */
export async function call(path: string, init: RequestInit = {}): Promise<Response> {
  for (;;) {
    const key = keys.current;
    const answer = await reach(path, init, key);
    if (answer.status !== 401) return answer;
    const refused = await refusal(answer);
    if (key === keys.current) await keys.ask(refused.message);
    if (keys.current === null) throw refused;
  }
}

/** Ask for JSON. */
export async function getJson<T>(path: string, init: RequestInit = {}): Promise<T> {
  const answer = await call(path, init);
  if (!answer.ok) throw await refusal(answer);
  return (await answer.json()) as T;
}

/** Send JSON, and read the JSON of the answer. */
export function sendJson<T>(method: string, path: string, body?: unknown): Promise<T> {
  const headers: Record<string, string> = body === undefined ? {} : { 'Content-Type': 'application/json' };
  return getJson<T>(path, { method, headers, body: JSON.stringify(body) });
}

async function reach(path: string, init: RequestInit, key: string | null): Promise<Response> {
  const headers = new Headers(init.headers);
  if (key !== null) headers.set('Authorization', `Bearer ${key}`);
  try {
    const answer = await fetch(address(path), { ...init, headers, cache: 'no-store' });
    connection.found();
    return answer;
  } catch (error) {
    if (init.signal?.aborted) throw error;
    connection.lost();
    throw new Unreachable();
  }
}

/** Read what an answer that is no success says. */
export async function refusal(answer: Response): Promise<Refused> {
  const text = await answer.text().catch(() => '');
  const retryAfter = Number(answer.headers.get('Retry-After') ?? NaN);
  const { message, problems } = read(text);
  const said = message || `The server answered ${answer.status} ${answer.statusText}.`;
  return new Refused(answer.status, said, problems, Number.isFinite(retryAfter) ? retryAfter : null);
}

interface Detail {
  loc?: (string | number)[];
  msg?: string;
}

function read(text: string): { message: string; problems: Problem[] } {
  let body: { error?: string; detail?: Detail[] | string };
  try {
    body = JSON.parse(text) as typeof body;
  } catch {
    return { message: text.slice(0, 500), problems: [] };
  }
  if (!Array.isArray(body.detail)) return { message: body.error ?? body.detail ?? '', problems: [] };
  const problems = body.detail.map(toProblem);
  const general = problems.filter((each) => !each.field).map((each) => each.message);
  return { message: general.join(' ') || 'Some inputs do not fit.', problems };
}

function toProblem({ loc = [], msg = '' }: Detail): Problem {
  return { field: loc[1] === 'input' ? String(loc[2] ?? '') : '', message: msg };
}
