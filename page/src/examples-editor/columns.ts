/** Which column of the examples is the input and which the target, by the names that a task reads. */
import type { Json } from '../api/types';
import { asDataUri } from '../answer-list/asked-input';
import { referenceOf } from '../output-value/media';
import { cellText, columnsOf, type Row } from '../output-value/shapes';

const INPUTS = ['text', 'input', 'sentence', 'prompt'];
const TARGETS = ['label', 'target', 'completion'];
const MOST_CLASSES = 100;
const LONGEST_CLASS = 60;

/** The two names that a task expects; null: it reads whole rows as inputs. */
export interface Expected {
  input: string | null;
  target: string;
}

/** Read the names out of the description of the input: "Rows of text and label". */
export function expectedOf(description: string): Expected {
  const words: string[] = description.toLowerCase().match(/[a-z]+/g) ?? [];
  const first = (names: string[]): string | null => words.find((each) => names.includes(each)) ?? null;
  const target = first([...TARGETS, 'caption']);
  return target === null ? { input: 'text', target: 'label' } : { input: first([...INPUTS, 'image']), target };
}

/** Return the columns of rows as they are read: the input first, the target last. */
export function orderedColumns(rows: Row[], expected: Expected): string[] {
  const found = columnsOf(rows);
  if (found.length === 0) return expected.input === null ? [expected.target] : [expected.input, expected.target];
  const [inputs, targets] = [spellings(expected.input, INPUTS), spellings(expected.target, TARGETS)];
  const rank = (name: string): number => (isOneOf(name, inputs) ? 0 : isOneOf(name, targets) ? 2 : 1);
  return found.sort((one, other) => rank(one) - rank(other));
}

/** Return the column of targets, if one has such a name. */
export function targetOf(columns: string[], expected?: Expected): string | null {
  return columns.find((each) => isOneOf(each, spellings(expected?.target ?? null, TARGETS))) ?? null;
}

/** Return the expected names that no column has, in whatever spelling. */
export function missingOf(columns: string[], expected: Expected): string[] {
  const has = (names: string[]): boolean => columns.some((each) => isOneOf(each, names));
  const missing = [];
  if (expected.input !== null && !has(spellings(expected.input, INPUTS))) missing.push(expected.input);
  if (!has(spellings(expected.target, TARGETS))) missing.push(expected.target);
  return missing;
}

/** Guess which column is meant: for a target the one with the fewest values, for an input the longest. */
export function guessOf(name: string, rows: Row[], columns: string[]): string {
  const seen = rows.slice(0, 200);
  const values = (column: string): number => new Set(seen.map((each) => cellText(each[column]))).size;
  const length = (column: string): number => seen.reduce((sum, each) => sum + cellText(each[column]).length, 0);
  const order = isOneOf(name, [...TARGETS, 'caption'])
    ? (one: string, other: string) => values(one) - values(other)
    : (one: string, other: string) => length(other) - length(one);
  return [...columns].sort(order)[0] ?? '';
}

/** Rename columns; `only`: leave out the others, which the model does not read. */
export function renamed(rows: Row[], names: Map<string, string>, only = false): Row[] {
  return rows.map((row) => Object.fromEntries(
    Object.entries(row).filter(([name]) => !only || names.has(name)).map(([name, value]) => [names.get(name) ?? name, value]),
  ));
}

/** Return the column that holds pictures or sounds, if one does. */
export function mediumOf(rows: Row[]): { column: string; medium: 'image' | 'audio' } | null {
  for (const [column, value] of Object.entries(rows[0] ?? {})) {
    const medium = typeof value === 'string' ? referenceOf(asDataUri(value))?.medium : null;
    if (medium === 'image' || medium === 'audio') return { column, medium };
  }
  return null;
}

/** Return classes with their numbers of examples, the largest first; null: the targets are no classes. */
export function balanceOf(rows: Row[], target: string | null): [string, number][] | null {
  if (target === null || isOneOf(target, ['completion', 'caption'])) return null;
  const counts = new Map<string, number>();
  for (const row of rows) {
    const value = row[target] as Json | undefined;
    if (typeof value === 'number' && (target.toLowerCase() !== 'label' || !Number.isInteger(value))) return null;
    const name = cellText(value).trim();
    if (name.length > LONGEST_CLASS) return null;
    if (name !== '') counts.set(name, (counts.get(name) ?? 0) + 1);
    if (counts.size > MOST_CLASSES) return null;
  }
  const isLabel = isOneOf(target, ['label']); // a few labels may differ all; a few targets are texts then
  const isOfTexts = (rows.length > 8 || !isLabel) && counts.size > rows.length / 2;
  return isOfTexts ? null : [...counts].sort(([, one], [, other]) => other - one);
}

/** Return the names that mean the same to a task: all, or an unusual one alone. */
function spellings(name: string | null, names: string[]): string[] {
  return name === null || names.includes(name) ? names : [name];
}

function isOneOf(name: string, names: string[]): boolean {
  return names.includes(name.trim().toLowerCase());
}
