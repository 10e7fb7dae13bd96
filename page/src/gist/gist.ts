/** Shows a run in short: what was asked beside what was answered. */
import { html, nothing, type TemplateResult } from 'lit';
import type { Json, Kind, RunRecord, Values } from '../api/types';
import { referenceOf } from '../output-value/media';
import { plainError } from '../runs/messages';
import { answersOf, learntOf, percent, progressOf, short, type Answer } from './answered';
import { askedOf, type Asked, type Known } from './asked';

const MOST_TEXT = 280;
const PAIRS = 2;
const PICTURES: [RegExp, string][] = [
  [/^iVBORw0KGgo/, 'image/png'],
  [/^\/9j\//, 'image/jpeg'],
  [/^R0lGOD/, 'image/gif'],
];

/** Render a run: its first inputs with their answers, what it was taught, why it has no answer. */
export function gist(kind: Kind, record: RunRecord, known: Known[], most = PAIRS): TemplateResult {
  const asked = askedOf((record.input ?? {}) as Values, known);
  const answers = answersOf(record.output as Json | undefined);
  const learns = kind === 'trainings' && asked.items.length === 0 && asked.examples !== 0;
  const learnt = learntOf(record);
  return html`<div class="gist">
    ${learns ? pair(html`${capital(taught(asked))}`, learnt.length > 0 ? html`<span>${learnt.join(' · ')}</span>` : null) : pairs(asked, answers, most)}
    ${outcome(record)}
    ${notes(learns ? { ...asked, examples: 0 } : asked, learns ? [] : learnt)}
  </div>`;
}

/** Render what a run was asked, as its heading: the first inputs, and what was taught or set. */
export function askedGist(record: RunRecord, known: Known[], most = 1): TemplateResult {
  const asked = askedOf((record.input ?? {}) as Values, known);
  const { items } = asked;
  const more = items.length - most;
  return html`<div class="gist gist-heading">
    ${items.slice(0, most).map((each) => html`<div class="gist-asked">${item(each)}</div>`)}
    ${more > 0 ? html`<p class="gist-more">and ${more.toLocaleString('en')} more</p>` : nothing}
    ${notes(asked, learntOf(record))}
  </div>`;
}

/** Render each input beside its answer; where they do not belong together, below each other. */
function pairs({ items }: Asked, answers: Answer[], most: number): TemplateResult {
  const belong = answers.length <= 1 || answers.length === items.length;
  const count = belong ? Math.max(items.length, answers.length) : items.length;
  const more = count - most;
  return html`
    ${items.length === 0 && answers.length === 0 ? pair(html`<span class="quiet">no input</span>`, null) : nothing}
    ${Array.from({ length: Math.min(count, most) }, (_, place) => {
      const [asking, answer] = [items[place], belong ? answers[place] : undefined];
      return pair(asking === undefined ? html`` : item(asking), answer === undefined ? null : said(answer));
    })}
    ${more > 0 ? html`<p class="gist-more quiet">and ${more.toLocaleString('en')} more</p>` : nothing}
    ${belong ? nothing : pair(html``, html`${answers.slice(0, most).map(said)}`)}
  `;
}

function pair(asking: TemplateResult, answer: TemplateResult | null): TemplateResult {
  return html`<div class="gist-pair">
    <span class="gist-asked">${asking}</span>
    ${answer === null ? nothing : html`<span class="gist-answer">${answer}</span>`}
  </div>`;
}

/** Render a value: a picture small, a file by its name, the rest in a few words. */
export function item(value: Json): TemplateResult {
  const text = short(value);
  const found = referenceOf(typeof value === 'string' ? asPicture(value) : '');
  if (found === null) return html`<span class="gist-text">${cut(text)}</span>`;
  if (found.medium === 'image' && !found.isElsewhere) return html`<img class="gist-thumb" src=${found.url} alt="picture" loading="lazy" />`;
  const noun = { image: 'picture', audio: 'sound', video: 'film', file: 'file' }[found.medium];
  return html`<span class="gist-text"><span class="gist-file">${noun}</span> ${found.isRemote ? cut(found.url) : nothing}</span>`;
}

function said({ value, score, before }: Answer): TemplateResult {
  return html`<strong class="gist-label">${item(value)}</strong>
    ${score === null ? nothing : html`<span class="gist-score">${percent(score)}</span>`}
    ${before === null ? nothing : html`<span class="gist-before">was ${cut(before, 60)}</span>`}`;
}

function outcome(record: RunRecord): TemplateResult | typeof nothing {
  if (record.error && record.status === 'failed') return html`<p class="gist-problem">${cut(plainError(record.error))}</p>`;
  const progress = ['starting', 'processing', 'canceled'].includes(record.status) ? progressOf(record) : '';
  return progress ? html`<p class="gist-note">${record.status === 'canceled' ? `ended at ${progress}` : progress}</p>` : nothing;
}

/** Render what it was taught, and what has come of that. */
function notes(asked: Asked, learnt: string[]): TemplateResult | typeof nothing {
  const words = [
    asked.examples !== 0 && taught(asked),
    asked.adapter && `with the adapter ${asked.adapter}`,
    ...learnt,
    ...asked.settings,
  ].filter((each): each is string => typeof each === 'string' && each !== '');
  return words.length > 0 ? html`<p class="gist-note">${words.map((each, place) => html`${place > 0 ? ' · ' : ''}<span>${cut(each, 120)}</span>`)}</p>` : nothing;
}

function taught({ examples, labels }: Asked): string {
  const count = examples === null ? 'examples of a file' : `${examples.toLocaleString('en')} example${examples === 1 ? '' : 's'}`;
  const names = labels.slice(0, 6).join(', ');
  return `taught ${count}${names ? ` of ${names}${labels.length > 6 ? ` and ${labels.length - 6} more` : ''}` : ''}`;
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function cut(text: string, most = MOST_TEXT): string {
  return text.length > most ? `${text.slice(0, most)}…` : text;
}

/** Return a picture in base64 as what a browser shows; other text as it is. */
function asPicture(text: string): string {
  const type = PICTURES.find(([begin]) => begin.test(text.slice(0, 20)))?.[1];
  return type ? `data:${type};base64,${text}` : text;
}
