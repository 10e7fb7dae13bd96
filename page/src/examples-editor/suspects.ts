/** Finds the rows whose labels a report calls into question, with the label that may be meant. */
import type { Json } from '../api/types';
import type { Row } from '../output-value/shapes';

export interface Suspect {
  /** Of the row, 0 for the first. */
  place: number;
  why: string;
  /** What the label may be meant as. */
  label: string;
}

const MOST = 20;
const SIMILAR = /(['"])(.+?)\1 \(\d+\) may be meant as (['"])(.+?)\3 \(\d+\)/g;
const DOUBTED = /(['"])(.+?)\1 in row (\d+) may be meant as (['"])(.+?)\4/g;
const CONTRARY = /(['"])([^'"]+)\1 in row (\d+) and (['"])([^'"]+)\4 in row (\d+)/g;

/** Return suspects among rows as they are now: a label that was put right is one no longer. */
export function suspectsOf(warnings: Json | undefined, rows: Row[], target: string | null): Suspect[] {
  if (!Array.isArray(warnings) || target === null) return [];
  const said = warnings.filter((each) => typeof each === 'string').join('\n');
  const found = [...misspelled(said, rows, target), ...doubted(said, rows, target), ...contrary(said, rows, target)];
  const first = new Map(found.map(({ place }, index) => [place, index] as const).reverse());
  return found.filter(({ place }, index) => first.get(place) === index).slice(0, MOST);
}

function misspelled(said: string, rows: Row[], target: string): Suspect[] {
  return [...said.matchAll(SIMILAR)].flatMap(([, , rare = '', , common = '']) =>
    rows.flatMap((row, place) =>
      row[target] === rare ? [{ place, why: `Is “${rare}” meant as “${common}”?`, label: common }] : [],
    ),
  );
}

function doubted(said: string, rows: Row[], target: string): Suspect[] {
  return [...said.matchAll(DOUBTED)].flatMap(([, , label = '', row = '', , other = '']) => {
    const place = Number(row) - 1;
    return rows[place]?.[target] === label ? [{ place, why: `The other examples say “${other}”, not “${label}”.`, label: other }] : [];
  });
}

function contrary(said: string, rows: Row[], target: string): Suspect[] {
  return [...said.matchAll(CONTRARY)].flatMap(([, , label = '', row = '', , other = '', first = '']) => {
    const place = Number(row) - 1;
    const isThere = rows[place]?.[target] === label && rows[Number(first) - 1]?.[target] === other;
    return isThere ? [{ place, why: `Row ${first} has the same input with “${other}”.`, label: other }] : [];
  });
}
