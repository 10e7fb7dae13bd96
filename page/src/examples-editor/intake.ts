/** Makes rows of what a reader pastes, drops or chooses. */
import { dataUri } from '../file-field/data-uri';
import type { Row } from '../output-value/shapes';
import { typedValue } from '../rows-field/typed-value';
import { parseExamples } from './parse';

export interface Intake {
  rows: Row[];
  /** What could not be read, in sentences. */
  problems: string[];
}

const TEXTUAL = /^(text|input|sentence|prompt|completion|label)$/i;

/** Return whether a pasted text is rows; a single line is typed on. */
export function isRows(text: string): boolean {
  return text.includes('\n') || /^\s*[[{]/.test(text);
}

/** Return the rows of a text; numbers are numbers where a column may hold them. */
export function rowsOfText(text: string): Intake {
  const { rows, problems } = parseExamples(text);
  const hasNone = rows.length === 0 && problems.length === 0 && text.trim() !== '';
  return { rows: rows.map(typed), problems: hasNone ? ['No rows were found.'] : problems };
}

/** Return the rows of files; each picture or sound is a row of its own, whose other cells are `others`. */
export async function rowsOfFiles(files: Iterable<File>, column: string, others: Row): Promise<Intake> {
  const found: Intake[] = [];
  for (const file of files) found.push(await rowsOfFile(file, column, others));
  return { rows: found.flatMap((each) => each.rows), problems: found.flatMap((each) => each.problems) };
}

/** Return the rows of pictures: each is described by the .txt of its name, or else by its name. */
export async function captionedRows(files: Iterable<File>, column: string, target: string): Promise<Intake> {
  const all = [...files];
  const isText = (file: File): boolean => /\.txt$/i.test(file.name);
  const found: Intake[] = [];
  for (const file of all.filter((each) => !isText(each))) {
    const beside = all.find((each) => isText(each) && stem(each) === stem(file));
    const caption = beside === undefined ? stem(file) : (await beside.text()).trim();
    found.push(await rowsOfFile(file, column, { [target]: caption }));
  }
  return { rows: found.flatMap((each) => each.rows), problems: found.flatMap((each) => each.problems) };
}

function stem(file: File): string {
  return file.name.replace(/\.[^.]*$/, '');
}

async function rowsOfFile(file: File, column: string, others: Row): Promise<Intake> {
  try {
    if (!/^(image|audio)\//.test(file.type)) return rowsOfText(await file.text());
    return { rows: [{ [column]: await dataUri(file), ...others }], problems: [] };
  } catch {
    return { rows: [], problems: [`${file.name} cannot be read; a folder's files are dropped by themselves.`] };
  }
}

function typed(row: Row): Row {
  return Object.fromEntries(Object.entries(row).map(([name, value]) => [name, TEXTUAL.test(name) ? value : typedValue(value)]));
}
