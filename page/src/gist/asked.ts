/** Reads a request as its sender knows it: what was asked, what was taught, which settings were changed. */
import type { Json, Values } from '../api/types';
import { isReference, isRow } from '../output-value/shapes';

export interface Asked {
  /** The values that answers belong to, one each. */
  items: Json[];
  /** How many examples came with it; null: a file of them, whose number is unknown. */
  examples: number | null;
  labels: string[];
  adapter: string;
  /** Settings that differ from their defaults, as `name value`. */
  settings: string[];
}

/** An input of the form, as far as it is needed here. */
export interface Known {
  name: string;
  default: Json | undefined;
}

const OF_LEARNING = new Set(['examples', 'examples_file', 'weights', 'adapter', 'labels']);
const FIRST = ['text', 'texts', 'prompt', 'messages', 'input', 'inputs', 'image', 'images', 'sound', 'sounds', 'audio', 'rows'];
const LARGE = 'a request that is too large for this list';
const MOST_SETTINGS = 4;
const MOST_WORDS = 60;

/** Read the input of a run; `known` gives the predictor's order and defaults. */
export function askedOf(input: Values, known: Known[] = []): Asked {
  if (isReference(input)) return { items: [LARGE], examples: 0, labels: [], adapter: '', settings: [] };
  const given = givenOf(input, known).filter(([name]) => !OF_LEARNING.has(name));
  const main = given.filter(([name, value]) => isContent(value) && FIRST.includes(name));
  const chosen = main.length > 0 ? main : given.filter(([, value]) => isContent(value)).slice(0, 1);
  const rest = given.filter((each) => !chosen.includes(each));
  const examples = examplesOf(input);
  const isAlone = chosen.length === 0 && examples === 0; // nothing but numbers: they are what is asked
  return {
    items: isAlone ? rest.slice(0, MOST_SETTINGS).map(spoken) : chosen.flatMap(([, value]) => (Array.isArray(value) ? value : [value])),
    examples,
    labels: labelsOf(input),
    adapter: typeof input.adapter === 'string' ? input.adapter : '',
    settings: isAlone ? [] : rest.filter(([, value]) => isShort(value)).slice(0, MOST_SETTINGS).map(spoken),
  };
}

/** Return what the sender has set, in the predictor's order. */
function givenOf(input: Values, known: Known[]): [string, Json][] {
  const names = known.map((each) => each.name);
  const defaults = new Map(known.map((each) => [each.name, each.default]));
  const place = (name: string): number => (names.includes(name) ? names.indexOf(name) : names.length);
  return Object.entries(input)
    .filter(([name, value]) => !isEmpty(value) && JSON.stringify(value) !== JSON.stringify(defaults.get(name)))
    .sort(([one], [other]) => place(one) - place(other));
}

function examplesOf({ examples, examples_file: file }: Values): number | null {
  if (Array.isArray(examples)) return examples.length;
  if (typeof examples === 'string' && examples !== '') return null;
  return isEmpty(file ?? null) ? 0 : null;
}

function labelsOf({ examples }: Values): string[] {
  const rows = Array.isArray(examples) ? examples.filter(isRow) : [];
  const labels = rows.map((each) => each.label).filter((each) => typeof each === 'string' || typeof each === 'number');
  return [...new Set(labels.map(String))];
}

function isEmpty(value: Json): boolean {
  return value === null || value === '' || (Array.isArray(value) && value.length === 0);
}

/** Whether a value can be what was asked, and is no setting. */
function isContent(value: Json): boolean {
  return typeof value === 'string' || (value !== null && typeof value === 'object');
}

function isShort(value: Json): boolean {
  return typeof value !== 'object' && String(value).length <= MOST_WORDS;
}

function spoken([name, value]: [string, Json]): string {
  const words = typeof value === 'object' ? JSON.stringify(value) : String(value);
  return `${name.replace(/_/g, ' ')} ${words.slice(0, MOST_WORDS)}`;
}
