/** Which form an output is shown in. */
import type { Json } from '../api/types';

export type Shape = 'nothing' | 'text' | 'table' | 'list' | 'object' | 'json';

export type Row = Record<string, Json>;

/** Return the shape of a value; `depth` counts the objects around it. */
export function shapeOf(value: Json | undefined, depth = 0): Shape {
  if (value === null || value === undefined) return 'nothing';
  if (typeof value !== 'object') return 'text';
  if (Array.isArray(value)) {
    if (value.length === 0) return 'nothing';
    if (value.every(isRow)) return 'table';
    return depth < 2 && value.every((each) => typeof each !== 'object') ? 'list' : 'json';
  }
  return depth < 1 ? 'object' : 'json';
}

const MOST_COLUMNS = 100;

/** Return the names of the columns, in the order in which they appear. */
export function columnsOf(rows: Row[]): string[] {
  const names = new Set<string>();
  for (const row of rows.slice(0, 1000)) for (const name of Object.keys(row)) names.add(name);
  return [...names].slice(0, MOST_COLUMNS);
}

/** Return a value as the text of one cell. */
export function cellText(value: Json | undefined): string {
  if (value === null || value === undefined) return '';
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

/** Return a text, or one that came in pieces. */
export function wholeText(value: Json): string {
  return Array.isArray(value) ? value.map(cellText).join('') : cellText(value);
}

export function isRow(value: Json): value is Row {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}

/** Return whether a value is a reference to what is too large for a list. */
export function isReference(value: unknown): boolean {
  const row = (value ?? null) as Json;
  return isRow(row) && typeof row.stored === 'string' && Object.keys(row).length === 1;
}
