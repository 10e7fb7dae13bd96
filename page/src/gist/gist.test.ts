import { render } from 'lit';
import { afterEach, expect, test } from 'vitest';
import type { Kind, RunRecord } from '../api/types';
import { HOSTILE, found } from '../testing/shown';
import { askedGist, gist } from './gist';

const PICTURE = 'data:image/png;base64,iVBORw0KGgo=';

afterEach(() => render('', document.body));

function show(given: object, kind: Kind = 'predictions'): HTMLElement {
  const record = { id: 'one', status: 'succeeded', ...given } as RunRecord;
  render(gist(kind, record, []), document.body);
  return document.body;
}

function words(element: ParentNode, selector: string): string[] {
  return [...element.querySelectorAll(selector)].map((each) => each.textContent.replace(/\s+/g, ' ').trim());
}

test('each answer stands beside its input, of many the first', () => {
  const body = show({ input: { texts: ['one', 'two', 'three'] }, output: { predictions: [{ label: 'a', score: 0.5 }, 'b', 'c'] } });
  expect(words(body, '.gist-pair')).toEqual(['one a 50%', 'two b']);
  expect(words(body, '.gist-more')).toEqual(['and 1 more']);
});

test('a picture is small, one of another server is named', () => {
  const body = show({ input: { images: [PICTURE, 'https://other.example/x.png'] }, output: { predictions: ['boot', 'bag'] } });
  expect(found<HTMLImageElement>(body, '.gist-thumb').src).toBe(PICTURE);
  expect(body.querySelectorAll('img')).toHaveLength(1);
  expect(words(body, '.gist-asked')[1]).toBe('picture https://other.example/x.png');
});

test('a training says what it was taught and what it has learnt', () => {
  const input = { examples: [{ text: 'x', label: 'a' }, { text: 'y', label: 'b' }], steps: 3 };
  const body = show({ input, output: { report: { losses: [2, 1] } } }, 'trainings');
  expect(words(body, '.gist-asked')).toEqual(['Taught 2 examples of a, b']);
  expect(words(body, '.gist-answer')).toEqual(['loss 2.00 → 1.00 in 2 steps']);
  expect(words(body, '.gist-note')).toEqual(['steps 3']);
});

test('one that failed says why, one that runs how far it is', () => {
  expect(words(show({ status: 'failed', error: 'Prediction failed: ValueError: no' }), '.gist-problem')).toEqual(['No']);
  expect(words(show({ status: 'starting', queue_position: 2 }), '.gist-note')).toEqual(['place 2 of the queue']);
});

test('all that is said is text', () => {
  const body = show({ status: 'failed', error: HOSTILE, input: { text: HOSTILE, adapter: HOSTILE }, output: { predictions: [{ label: HOSTILE }] } });
  expect(words(body, '.gist-asked, .gist-label, .gist-problem')).toEqual([HOSTILE, HOSTILE, HOSTILE]);
  expect(body.querySelector('img')).toBeNull();
});

test('as a heading, it is what was asked and how', () => {
  render(askedGist({ id: 'one', status: 'succeeded', input: { texts: ['one', 'two'], steps: 4 } } as RunRecord, []), document.body);
  expect(words(document.body, '.gist-asked, .gist-more, .gist-note')).toEqual(['one', 'and 1 more', 'steps 4']);
});
