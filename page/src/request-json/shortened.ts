/** Shows values as JSON in which long files are short, and reads them back whole. */
import type { Json, Values } from '../api/types';

const LONG = 2000;

export interface Shortened {
  text: string;
  /** Read the text, edited perhaps; throws SyntaxError or TypeError where it is no request. */
  read: (text: string) => Values;
}

/** Return the request of some values as text, secrets left out. */
export function shortened(values: Values, secrets: readonly string[] = []): Shortened {
  const whole = new Map<string, string>();
  const shown = Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, secrets.includes(name) ? '**********' : value]),
  );
  const text = JSON.stringify({ input: shown }, (_, value: Json) => shorten(value, whole), 2);
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
  const kept = secrets.filter((name) => input[name] === '**********');
  return { ...input, ...Object.fromEntries(kept.map((name) => [name, before[name] ?? null])) };
}
