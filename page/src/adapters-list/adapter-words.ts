/** Says of an adapter what it was taught, and how well it is expected to answer. */
import type { Adapter } from '../api/types';
import { percent, short } from '../gist/answered';
import { bytes } from '../server-view/figures';

const MOST_LABELS = 12;

/** Return the name with its version, or the id. */
export function shownName(adapter: Adapter): string {
  return adapter.name ? `${adapter.name}@v${adapter.version ?? 1}` : adapter.id;
}

/** Return what it was taught: how many examples, of how many labels. */
export function taughtWords({ examples, labels }: Adapter): string {
  const kinds = labels?.length ?? 0;
  const of = kinds > 0 ? `${count(kinds, 'label')}` : '';
  return typeof examples === 'number' ? [count(examples, 'example'), of].filter(Boolean).join(', ') : of || 'unknown examples';
}

/** Return the names of its labels, of very many the first ones. */
export function labelWords({ labels }: Adapter): string {
  const all = labels ?? [];
  const more = all.length - MOST_LABELS;
  return `${all.slice(0, MOST_LABELS).join(', ')}${more > 0 ? ` and ${more.toLocaleString('en')} more` : ''}`.slice(0, 300);
}

/** Return the method with its rank, as its recipe has them. */
export function methodWords({ recipe }: Adapter): string {
  const { method, rank } = recipe ?? {};
  if (typeof method !== 'string' || method === '') return '';
  return method === 'lora' && typeof rank === 'number' && rank > 0 ? `method lora of rank ${rank}` : `method ${method}`;
}

/** Return its size, its uses, its owner and with whom it is shared. */
export function factsOf({ bytes: size, hits, owner, shared, pinned, parent }: Adapter): string[] {
  return [
    typeof size === 'number' && bytes(size),
    typeof hits === 'number' && hits > 0 && `used ${hits === 1 ? 'once' : `${hits.toLocaleString('en')} times`}`,
    owner && `of ${owner}`,
    shared?.length > 0 && (shared.includes('*') ? 'shared with all' : `shared with ${shared.join(', ').slice(0, 100)}`),
    pinned && 'pinned',
    parent && `continues ${parent}`,
  ].filter((each): each is string => typeof each === 'string' && each !== '');
}

export interface Expected {
  /** Its score, as percent where it is a share of right answers. */
  after: string;
  before: string;
  noun: string;
  /** Between 0 and 1; null: no bar can show it. */
  share: number | null;
}

/** Return its expected score; null: nothing was estimated. */
export function expectedOf({ score_after: after, score_before: before, labels }: Adapter): Expected | null {
  if (typeof after !== 'number') return null;
  const isShare = (labels?.length ?? 0) > 0 && after >= 0 && after <= 1;
  const shown = isShare ? percent : short;
  return {
    after: shown(after),
    before: typeof before === 'number' ? shown(before) : '',
    noun: isShare ? 'expected accuracy' : 'expected score',
    share: isShare ? after : null,
  };
}

function count(value: number, noun: string): string {
  return `${value.toLocaleString('en')} ${noun}${value === 1 ? '' : 's'}`;
}
