import { expect, test } from 'vitest';
import { Refused } from '../api/client';
import { Run } from '../runs/run';
import { HOSTILE, button, found, shown, toldBy } from '../testing/shown';
import type { OutputValue } from '../output-value/output-value';
import type { ResultPanel } from './result-panel';
import './result-panel';

function panel(given: Partial<Run>): Promise<ResultPanel> {
  return shown<ResultPanel>('result-panel', { run: Object.assign(new Run('predictions', {}, 'one'), given) });
}

function said(element: HTMLElement): string {
  return found(element, '[role=status]').textContent.replace(/\s+/g, ' ').trim();
}

test.each([
  [{ phase: 'sending' }, 'Sending'],
  [{ phase: 'queued', position: 2 }, 'Waiting for a slot , place 2 of the queue'],
  [{ phase: 'running', position: 2 }, 'Running'],
  [{ phase: 'succeeded', seconds: 1.25 }, 'Succeeded after 1.3 s'],
  [{ phase: 'canceled', seconds: 0 }, 'Cancelled after 0.0 s'],
] as [Partial<Run>, string][])('it says where the run is: %j', async (given, words) => {
  expect(said(await panel(given))).toBe(words);
});

test('what has come so far is shown while it runs; then the output', async () => {
  const element = await panel({ phase: 'running', chunks: ['so far'] });
  expect(found(element, 'output-value').textContent).toContain('so far');
  Object.assign(element.run, { phase: 'succeeded', output: 'all of it' });
  element.version += 1;
  await element.updateComplete;
  await Promise.resolve();
  expect(found(element, 'output-value').textContent).toContain('all of it');
});

test('a run that failed says why and shows its logs, all as text', async () => {
  const element = await panel({ phase: 'failed', error: HOSTILE, output: HOSTILE, logs: `before it\n${HOSTILE}` });
  expect(found(element, '[role=alert]').textContent.trim()).toBe(HOSTILE);
  expect(found<HTMLDetailsElement>(element, 'details.logs').open).toBe(true);
  for (const part of ['log-view', 'output-value']) expect(found(element, part).textContent).toContain(HOSTILE);
  expect(element.querySelector('img')).toBeNull();
});

test('logs that say no more than the error stay folded', async () => {
  const element = await panel({ phase: 'failed', error: 'Prediction failed: ValueError: odd', logs: 'ValueError: odd\n' });
  expect(found(element, '[role=alert]').textContent.trim()).toBe('Odd');
  expect(found<HTMLDetailsElement>(element, 'details.logs').open).toBe(false);
});

test('an answer stands above how it was learned, and the answer of a chat can be replied to', async () => {
  const run = Object.assign(new Run('predictions', { prompt: 'Hello?' }, 'one'), { phase: 'succeeded', output: ['Good', ' day'], report: { method: 'lora' } });
  const element = await shown<ResultPanel>('result-panel', { run, joins: true, replies: true });
  const parts = [...element.querySelectorAll('.message, .reply, adaptation-panel')].map((each) => each.localName);
  expect(parts).toEqual(['p', 'div', 'button', 'adaptation-panel']);
  const replied = toldBy(element, 'reply');
  button(element, 'Reply').click();
  expect(replied).toHaveLength(1);
});

test.each([
  ['Good day', /before teaching\s*Good day/],
  ['Bye', /Teaching changed nothing here/],
  ['…', /Asking for the answer before teaching/],
])('beside the taught answer of a chat stands what was said before: %s', async (untaught, words) => {
  const run = Object.assign(new Run('predictions', { prompt: 'Hello?' }, 'one'), { phase: 'succeeded', output: ['B', 'ye'], untaught });
  const element = await shown<ResultPanel>('result-panel', { run, joins: true });
  expect(found(element, '.is-assistant .was').textContent).toMatch(words);
});

test('labels that look wrong are told above the answers, with a way to their rows', async () => {
  const run = Object.assign(new Run('predictions', {}, 'one'), { phase: 'succeeded', output: { predictions: [3] } });
  const element = await shown<ResultPanel>('result-panel', { run, doubtful: 2 });
  expect([...element.querySelectorAll('.suspect, answer-list')].map((each) => each.localName)).toEqual(['p', 'answer-list']);
  const showing = toldBy(element, 'show-doubtful');
  button(element, 'Show them').click();
  expect(showing).toHaveLength(1);
});

test.each([409, 429, 503])('a server that is full is said, when to come again, and it can be tried: %i', async (status) => {
  const element = await panel({ phase: 'refused', error: 'queue full', refused: new Refused(status, 'queue full', [], 7) });
  const again = toldBy(element, 'run-again');
  expect(found(element, '[role=alert]').textContent).toMatch(/cannot take it now.*queue full.*wait 7 s/s);
  button(element, 'Try again').click();
  expect(again).toHaveLength(1);
  expect(element.querySelector('log-view')).toBeNull();
});

test('a request that is wrong is not to be tried again', async () => {
  const element = await panel({ phase: 'refused', error: 'no', refused: new Refused(422, 'no') });
  expect(said(element)).toBe('Not accepted');
  expect(element.querySelector('[role=alert] button')).toBeNull();
});

test('an answer is shown as what it is, and nothing of fields that hold nothing', async () => {
  const output = { predictions: [{ label: 'b', scores: { a: 0.2, b: 0.8 } }], before: null, adapter: null, report: null };
  const element = await panel({ phase: 'succeeded', output });
  expect([...element.querySelectorAll('.score')].map((each) => each.textContent.replace(/\s+/g, ' ').trim())).toEqual(['b 80%', 'a 20%']);
  expect(element.querySelector('.glance')).toBeNull();
  const other = await panel({ phase: 'succeeded', output: { weights: 'a file', report: null } });
  expect([...other.querySelectorAll('dt')].map((each) => each.textContent)).toEqual(['weights']);
});

test('the first answer stands there before any step, until the last one does', async () => {
  const element = await panel({ phase: 'running', early: { predictions: [3], expected: 'R² about .4', step: 0 } });
  expect(found(element, '.early').textContent).toContain('R² about .4');
  expect(found(element, '.answer-number').textContent).toBe('3');
  Object.assign(element.run, { phase: 'succeeded', output: { predictions: [5], before: [4] } });
  element.version += 1;
  await element.updateComplete;
  await Promise.resolve();
  expect(element.querySelector('.early')).toBeNull();
  expect(found(element, '.glance').textContent).toContain('Teaching changed the answer.');
});

test('a first picture stands there as a picture, until one that was learned does', async () => {
  const picture = 'data:image/png;base64,AAAA';
  const element = await panel({ phase: 'running', early: { predictions: [picture], expected: 'after 25 of 100 steps', step: 25 } });
  expect(found(element, '.early').textContent).toContain('The answer so far, after 25 of 100 steps');
  await element.querySelector<OutputValue>('output-value')?.updateComplete;
  expect(found(element, 'img').getAttribute('src')).toBe(picture);
  Object.assign(element.run, { chunks: ['data:image/png;base64,BBBB'] });
  element.version += 1;
  await element.updateComplete;
  await Promise.resolve();
  expect(element.querySelector('.early')).toBeNull();
  expect(element.querySelectorAll('img')).toHaveLength(1);
});

test('an error that stands at its input is not said again', async () => {
  const run = Object.assign(new Run('predictions', {}, 'one'), { phase: 'failed', error: 'Prediction failed: Async prediction failed: InputError: bad' });
  const element = await shown<ResultPanel>('result-panel', { run, saidAt: ['text'] });
  expect(found(element, '[role=alert]').textContent).toBe('Correct what is marked in the form: text.');
  element.saidAt = [];
  await element.updateComplete;
  expect(found(element, '[role=alert]').textContent.trim()).toBe('Bad');
});
