/** Reads examples as people have them: a JSON list, JSON Lines, an object of lists, or CSV. */
import type { Json } from '../api/types';
import { isRow, type Row } from '../output-value/shapes';

export interface Parsed {
  rows: Row[];
  /** What could not be read, in the words of its line. */
  problems: string[];
}

const MOST_PROBLEMS = 20;

/** Return the rows of a text; what cannot be read is said, and the rest is taken. */
export function parseExamples(text: string): Parsed {
  const trimmed = text.replace(/^\ufeff/, '').trim();
  if (trimmed === '') return { rows: [], problems: [] };
  if (!/^[[{]/.test(trimmed)) return fromCsv(trimmed);
  const whole = decoded(trimmed);
  if (Array.isArray(whole)) return fromList(whole, 'Item');
  if (whole !== undefined && isRow(whole) && Object.values(whole).every(Array.isArray)) {
    return { rows: fromLabels(whole as Record<string, Json[]>), problems: [] };
  }
  return fromLines(trimmed);
}

function decoded(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

function fromList(items: (Json | undefined)[], noun: string): Parsed {
  const rows: Row[] = [];
  const problems: string[] = [];
  items.forEach((item, place) => {
    if (item !== undefined && isRow(item ?? null)) rows.push(item as Row);
    else problems.push(`${noun} ${place + 1} is no object with a name for each value.`);
  });
  return { rows, problems: bounded(problems) };
}

function fromLabels(lists: Record<string, Json[]>): Row[] {
  return Object.entries(lists).flatMap(([label, inputs]) => inputs.map((text) => ({ text, label })));
}

function fromLines(text: string): Parsed {
  const lines = text.split(/\r?\n/).filter((each) => each.trim() !== '');
  return fromList(lines.map(decoded), 'Line');
}

function fromCsv(text: string): Parsed {
  const separator = separatorOf(text.split(/\r?\n/, 1)[0] ?? '');
  const [names = [], ...records] = csvRecords(text, separator);
  const rows: Row[] = [];
  const problems: string[] = [];
  records.forEach((cells, place) => {
    if (cells.length === names.length) {
      rows.push(Object.fromEntries(names.map((name, column) => [name.trim(), cells[column] ?? ''])));
    } else {
      problems.push(`Record ${place + 2} has ${cells.length} values for ${names.length} columns.`);
    }
  });
  return { rows, problems: bounded(problems) };
}

function separatorOf(header: string): string {
  const count = (each: string): number => header.split(each).length;
  return [',', '\t', ';'].reduce((best, each) => (count(each) > count(best) ? each : best), ',');
}

/** Cut CSV into records of cells, quotes and line breaks inside quotes included. */
function csvRecords(text: string, separator: string): string[][] {
  const records: string[][] = [];
  const cell = new RegExp(`(?:"((?:[^"]|"")*)"|([^${separator}\\r\\n]*))(${separator}|\\r?\\n|$)`, 'gy');
  let record: string[] = [];
  for (const [, quoted, plain, end] of text.matchAll(cell)) {
    record.push(quoted === undefined ? (plain ?? '') : quoted.replace(/""/g, '"'));
    if (end === separator) continue;
    if (record.length > 1 || record[0] !== '') records.push(record);
    record = [];
    if (end === '') break;
  }
  return records;
}

function bounded(problems: string[]): string[] {
  const more = problems.length - MOST_PROBLEMS;
  return more > 0 ? [...problems.slice(0, MOST_PROBLEMS), `And ${more} more.`] : problems;
}
