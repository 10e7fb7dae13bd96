import { afterEach, expect, test, vi } from 'vitest';
import type { Json } from '../api/types';
import { HOSTILE, found, settled, shown } from '../testing/shown';
import type { ServerView } from './server-view';
import './server-view';

const WORKER = { kind: 'predict', state: 'ready', slots: 4, running: 0, waiting: 0, crashes: 0, last_crash: null, setup: { error: null } };
const KEY = { needed: false, name: '', owner: '', scopes: [] };

afterEach(() => {
  document.body.replaceChildren();
  vi.unstubAllGlobals();
});

async function view(workers: Json[], degraded?: Json): Promise<{ element: ServerView; asked: string[] }> {
  const figures = { status: 'READY', key: KEY, queue: { most: 10 }, workers, model: {}, files: null, records: null, versions: {} };
  const bodies: Record<string, string> = { 'server.json': JSON.stringify(figures), readyz: JSON.stringify({ degraded }) };
  const asked: string[] = [];
  vi.stubGlobal('fetch', (url: string) => {
    asked.push(url.split('/').at(-1) ?? '');
    return Promise.resolve(new Response(bodies[asked.at(-1) ?? ''] ?? '', { status: url.endsWith('readyz') ? 503 : 200 }));
  });
  const element = await shown<ServerView>('server-view');
  await settled();
  return { element, asked };
}

test('of several workers the one that is out is named with its reason, as text, and its fold is open', async () => {
  const { element } = await view(['0', '1', 'train'].map((worker) => ({ ...WORKER, worker, kind: worker === 'train' ? worker : 'predict' })), [`worker 1: ${HOSTILE}`]);
  const fold = found<HTMLDetailsElement>(element, 'details.workers');
  expect(fold.open).toBe(true);
  expect(found(fold, 'summary').textContent).toMatch(/1 of 2 serve/);
  expect(found(fold, '.problem').textContent).toBe(`worker 1: ${HOSTILE}`);
  expect([...fold.querySelectorAll('tbody tr th:first-child')].map((each) => each.textContent.trim())).toEqual(['0', '1', 'train']);
});

test('of the only one nothing but its state is asked', async () => {
  const { element, asked } = await view([WORKER]);
  expect(asked).toEqual(['server.json', 'metrics']);
  expect(found<HTMLDetailsElement>(element, 'details.workers').open).toBe(false);
  expect(found(element, 'details.workers summary').textContent.trim()).toBe('Workers');
});
