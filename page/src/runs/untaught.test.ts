import { afterEach, expect, test, vi } from 'vitest';
import { json, server } from '../testing/shown';
import { Run } from './run';

const ACCEPTED = json({ status: 'starting' }, 202);
const DONE = (): Response => new Response('event: completed\ndata: {"status": "succeeded", "output": ["a", "b"]}\n\n');

afterEach(() => vi.unstubAllGlobals());

test.each([
  [{ prompt: 'hi', examples: [{ prompt: 'a' }] }, '{"input":{"prompt":"hi"}}', 'ab'],
  [{ prompt: 'hi', examples: 'a,b' }, '{"input":{"prompt":"hi"}}', 'ab'],
  [{ prompt: 'hi', examples: [] }, null, null],
  [{ prompt: 'hi' }, null, null],
])('what taught it is left out when the model is asked as it was before: %j', async (input, sent, untaught) => {
  const asked = server(ACCEPTED, DONE, ACCEPTED, DONE);
  const run = new Run('predictions', input);
  await run.start();
  await run.askUntaught();
  expect(run.untaught).toBe(untaught);
  expect(asked[2]?.[1].body ?? null).toBe(sent);
});

test('what is said without the examples is left out where it cannot be asked', async () => {
  server(ACCEPTED, DONE, json({ error: 'full' }, 429));
  const run = new Run('predictions', { examples: 'a,b' });
  await run.start();
  const asking = run.askUntaught();
  expect(run.untaught).toBe('…');
  await asking;
  expect(run.untaught).toBeNull();
});
