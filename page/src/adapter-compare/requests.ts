/** The request that asks an adapter, or the base, what the form asks; and which answers differ. */
import type { Adapter, Json, Values } from '../api/types';
import { short, type Answer } from '../gist/answered';

const OF_LEARNING = ['examples', 'examples_file', 'weights', 'adapter', 'labels'];

/** Return the inputs for a comparison: those of the form, without what would make it learn. */
export function comparedInputs(
  form: Values,
  typed: string,
  adapter: Adapter | null,
  labels: string[],
  names: string[] | null = null,
): Values {
  const kept = Object.entries(form).filter(([name]) => !OF_LEARNING.includes(name));
  const texts = typed.split('\n').map((each) => each.trim()).filter(Boolean);
  const asked: Values = texts.length > 0 ? { text: '', texts } : {};
  const ofBase: Record<string, Json> = labels.length > 0 && (names?.includes('labels') ?? true) ? { labels } : {};
  const who: Record<string, Json> = adapter ? { adapter: adapter.id } : ofBase;
  return { ...Object.fromEntries(kept), ...asked, ...who };
}

/** Return the texts of a form, one a line. */
export function typedOf(form: Values): string {
  const texts = Array.isArray(form.texts) ? form.texts : [];
  return [form.text, ...texts].filter((each) => typeof each === 'string' && each !== '').join('\n');
}

/** Return which answers differ from the first that there is: the base's, if it has one. */
export function differing(row: (Answer | null)[]): boolean[] {
  const first = row.find((each) => each !== null);
  return row.map((each) => each !== null && first !== undefined && first !== null && short(each.value) !== short(first.value));
}

/** Say at a glance what a comparison has shown. */
export function differenceWords(rows: (Answer | null)[][]): string {
  const differ = rows.filter((row) => differing(row).includes(true)).length;
  if (differ > 0) return `${differ} of ${rows.length} input${rows.length === 1 ? '' : 's'} ${differ === 1 ? 'has' : 'have'} different answers.`;
  const gains = rows.some((row) => row.slice(1).some((each) => gainOf(each?.score ?? null, row[0]?.score ?? null) !== ''));
  return gains ? 'All answers are the same; their scores are not.' : 'All answers are the same.';
}

/** Return a score's gain on another in whole percent, with its sign; empty: none that is seen. */
export function gainOf(score: number | null, base: number | null): string {
  const gain = score === null || base === null ? 0 : Math.round(score * 100) - Math.round(base * 100);
  return gain === 0 ? '' : `${gain > 0 ? '+' : '−'}${Math.abs(gain)}`;
}
