/** What a cell of a row holds: a number where the text is one. */
import type { Json } from '../api/types';

/** Return the number that a text writes out; all else as it is. */
export function typedValue(value: Json): Json {
  if (typeof value !== 'string' || !/^-?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(value.trim())) return value;
  return Number(value);
}
