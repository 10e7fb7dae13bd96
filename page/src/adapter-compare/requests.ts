/** The request that asks an adapter, or the base, what the form asks. */
import type { Adapter, Json, Values } from '../api/types';

const OF_LEARNING = ['examples', 'examples_file', 'weights', 'adapter', 'labels'];

/** Return the inputs for a comparison: those of the form, without what would make it learn. */
export function comparedInputs(form: Values, typed: string, adapter: Adapter | null, labels: string[]): Values {
  const kept = Object.entries(form).filter(([name]) => !OF_LEARNING.includes(name));
  const texts = typed.split('\n').map((each) => each.trim()).filter(Boolean);
  const asked: Values = texts.length > 0 ? { text: '', texts } : {};
  const who: Record<string, Json> = adapter ? { adapter: adapter.id } : { labels };
  return { ...Object.fromEntries(kept), ...asked, ...who };
}

/** Return the texts of a form, one a line. */
export function typedOf(form: Values): string {
  const texts = Array.isArray(form.texts) ? form.texts : [];
  return [form.text, ...texts].filter((each) => typeof each === 'string' && each !== '').join('\n');
}
