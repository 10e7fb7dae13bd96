/** Which view the address names: `#/history/predictions/ID`. */

export type ViewName = 'predict' | 'train' | 'history' | 'self-test' | 'server';
export type Listed = 'predictions' | 'trainings' | 'adapters';

export interface Route {
  view: ViewName;
  listed: Listed;
  id: string | null;
}

const VIEWS: readonly string[] = ['predict', 'train', 'history', 'self-test', 'server'];
const LISTED: readonly string[] = ['predictions', 'trainings', 'adapters'];

/** Read the fragment of an address; what it does not know is the first view. */
export function routeOf(hash: string): Route {
  const [view = '', listed = '', id] = hash.replace(/^#\/?/, '').split('/');
  if (LISTED.includes(view)) return { view: 'history', listed: view as Listed, id: decoded(listed) };
  return {
    view: (VIEWS.includes(view) ? view : 'predict') as ViewName,
    listed: (LISTED.includes(listed) ? listed : 'predictions') as Listed,
    id: decoded(id),
  };
}

/** Write the fragment of a list, or of one in it. */
export function hashOf(listed: Listed, id?: string): string {
  return id ? `#/${listed}/${encodeURIComponent(id)}` : `#/history/${listed}`;
}

function decoded(part: string | undefined): string | null {
  try {
    return part ? decodeURIComponent(part) : null;
  } catch {
    return null;
  }
}
