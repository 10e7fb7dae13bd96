/** Shows values as JSON in which long files are short, and reads them back whole. */
import type { Json, Values } from '../api/types';

const LONG = 2000;

export interface Shortened {
  text: string;
  /** Read the text, edited perhaps; throws SyntaxError or TypeError where it is no request. */
  read: (text: string) => Values;
}

const STARS = '**********'; // the server's own, in its records

/** Return values whose secrets are starred out. */
export function starred(values: Values, secrets: readonly string[]): Values {
  const shown = (name: string, value: Json): Json => (secrets.includes(name) ? STARS : value);
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, shown(name, value)]));
}

/** Return values without what is starred out: it is no secret to be sent. */
export function unstarred(values: Values, secrets: readonly string[]): Values {
  return Object.fromEntries(
    Object.entries(values).filter(([name, value]) => !(secrets.includes(name) && value === STARS)),
  );
}

/** Return the request of some values as text, secrets left out. */
export function shortened(values: Values, secrets: readonly string[] = []): Shortened {
  const whole = new Map<string, string>();
  const text = JSON.stringify({ input: starred(values, secrets) }, (_, value: Json) => shorten(value, whole), 2);
  return { text, read: (edited) => read(edited, whole, values, secrets) };
}

function shorten(value: Json, whole: Map<string, string>): Json {
  if (typeof value !== 'string' || value.length <= LONG || !value.startsWith('data:')) return value;
  const short = `${value.slice(0, 40)}… (file ${whole.size + 1}, ${value.length.toLocaleString('en')} characters)`;
  whole.set(short, value);
  return short;
}

function read(
  text: string,
  whole: Map<string, string>,
  before: Values,
  secrets: readonly string[],
): Values {
  const given = JSON.parse(text, (_, value: Json) =>
    typeof value === 'string' ? (whole.get(value) ?? value) : value,
  ) as { input?: Json } | null;
  const input = given?.input;
  if (!input || typeof input !== 'object' || Array.isArray(input)) {
    throw new TypeError('A request is {"input": {…}}.');
  }
  const kept = secrets.filter((name) => input[name] === STARS);
  return { ...input, ...Object.fromEntries(kept.map((name) => [name, before[name] ?? null])) };
}
