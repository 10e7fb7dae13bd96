/** Reads answers as what they are (labels with scores, numbers, texts, other), and the inputs that they answer. */
import type { Json, Values } from '../api/types';
import { isRow, type Row } from '../output-value/shapes';

export type Reading =
  | { kind: 'scores'; label: string; scores: [string, number][] }
  | { kind: 'number'; value: number }
  | { kind: 'text'; text: string }
  | { kind: 'other'; value: Json };

/** Values of a request that teach or set, so that no answer belongs to one of them. */
const NOT_ASKED = new Set(['examples', 'labels', 'stop', 'messages']);
const EVEN = 1e-4; // scores that are closer are the same
const SINGLE = ['text', 'input', 'prompt', 'question', 'image', 'sound', 'audio'];

/** Return one answer as what it is; scores are sorted, the highest first. */
export function readingOf(answer: Json): Reading {
  if (typeof answer === 'number') return { kind: 'number', value: answer };
  if (typeof answer === 'string') return { kind: 'text', text: answer };
  if (typeof answer === 'boolean') return { kind: 'text', text: answer ? 'yes' : 'no' };
  if (answer === null || !isRow(answer)) return { kind: 'other', value: answer };
  const { label } = answer;
  if (label === undefined || label === null || typeof label === 'object') return { kind: 'other', value: answer };
  const scores = scoresOf(answer, String(label));
  return scores.length > 0 ? { kind: 'scores', label: String(label), scores } : { kind: 'text', text: String(label) };
}

function scoresOf(answer: Row, label: string): [string, number][] {
  const given = isRow(answer.scores ?? null) ? Object.entries(answer.scores as Row) : [[label, answer.score ?? null] as const];
  const found = given.filter((each): each is [string, number] => typeof each[1] === 'number');
  return found.sort(([, one], [, other]) => other - one);
}

/** Return the answers of an output, if it has a list of them. */
export function predictionsOf(output: Json | undefined, name = 'predictions'): Json[] | null {
  const found = output !== undefined && isRow(output) ? output[name] : undefined;
  return Array.isArray(found) ? found : null;
}

/** Return the inputs that `count` answers belong to; null where the request does not show them. */
export function askedOf(input: Values, count: number): Json[] | null {
  const singles = SINGLE.map((name) => input[name]).filter((each) => typeof each === 'string' && each !== '') as Json[];
  const lists = Object.entries(input).filter(([name, each]) => Array.isArray(each) && !NOT_ASKED.has(name));
  for (const [, list] of [['', []], ...lists] as [string, Json[]][]) {
    for (const first of [singles, []]) {
      if (first.length + list.length === count) return [...first, ...list];
    }
  }
  return null;
}

/** Return whether two answers say the same; numbers by what is shown of them. */
export function isSame(one: Reading, other: Reading): boolean {
  return saidBy(one) === saidBy(other);
}

/** Return whether an answer names a label by chance alone, since all of them score the same. */
export function isUndecided(answer: Reading | null): boolean {
  if (answer?.kind !== 'scores' || answer.scores.length < 2) return false;
  const [most, least] = [answer.scores[0]?.[1] ?? 0, answer.scores.at(-1)?.[1] ?? 0];
  return most - least < EVEN;
}

/** Return whether teaching changed an answer. */
export function isChanged(answer: Reading, was: Reading | null): boolean {
  return was !== null && (isUndecided(was) !== isUndecided(answer) || !isSame(answer, was));
}

function saidBy(reading: Reading): string {
  if (reading.kind === 'scores') return reading.label;
  if (reading.kind === 'number') return numberText(reading.value);
  return reading.kind === 'text' ? reading.text : JSON.stringify(reading.value);
}

/** Return a number with as many digits as a reader needs. */
export function numberText(value: number): string {
  return value.toLocaleString('en', { maximumSignificantDigits: Math.abs(value) >= 1000 ? 6 : 4 });
}

/** Return a share as whole percent; what is not nothing is never shown as nothing. */
export function percent(share: number): string {
  if (share > 0 && share < 0.005) return '<1%';
  return `${Math.round(share * 100)}%`;
}
