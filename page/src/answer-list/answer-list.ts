import { html, nothing, type TemplateResult } from 'lit';
import { customElement, property } from 'lit/decorators.js';
import type { Json, Values } from '../api/types';
import { LightElement } from '../light/light-element';
import { styles } from '../light/styles';
import { mediaValue } from '../output-value/media';
import { isRow } from '../output-value/shapes';
import { askedInput } from './asked-input';
import { askedOf, isChanged, isUndecided, numberText, percent, readingOf, type Reading } from './readings';

const MOST_ANSWERS = 100;
const SCORES_OF_ONE = 6;
const FEW = 3; // so many answers have room for as many scores each
const MOST_TEXT = 10_000;

/** Answers beside their inputs, each as what it is; what teaching changed stands beside it. */
@customElement('answer-list')
export class AnswerList extends LightElement {
  @property({ attribute: false }) input: Values = {};
  @property({ attribute: false }) answers: Json[] = [];
  /** Those before teaching; null: the model was not taught. */
  @property({ attribute: false }) untaught: Json[] | null = null;

  override render(): TemplateResult {
    const asked = askedOf(this.input, this.answers.length);
    const shown = this.answers.slice(0, MOST_ANSWERS);
    return html`
      ${this.summary()}
      <ol class="answers" aria-label="Answers">
        ${shown.map((each, place) => this.row(asked?.[place], readingOf(each), this.was(place)))}
      </ol>
      ${this.answers.length > shown.length
        ? html`<p class="quiet">and ${(this.answers.length - shown.length).toLocaleString('en')} more in the whole output</p>`
        : nothing}
    `;
  }

  private was(place: number): Reading | null {
    const before = this.untaught?.[place];
    return before === undefined ? null : readingOf(before);
  }

  private summary(): TemplateResult | typeof nothing {
    if (this.untaught === null || this.untaught.length !== this.answers.length) return nothing;
    const changed = this.answers.filter((each, place) => isChanged(readingOf(each), this.was(place)));
    const [few, many] = [changed.length, this.answers.length];
    const tells = few === 0 ? 'Teaching changed no answer' : `Teaching changed ${many === 1 ? 'the answer' : `${few} of ${many} answers`}`;
    const hasScores = this.answers.some((each) => readingOf(each).kind === 'scores');
    return html`<p class="glance"><strong>${tells}.</strong>
      ${hasScores ? html`<span class="quiet"><span class="bar-was-key" aria-hidden="true"></span> before teaching</span>` : nothing}</p>`;
  }

  private row(asked: Json | undefined, answer: Reading, was: Reading | null): TemplateResult {
    return html`<li class="answer ${isChanged(answer, was) ? 'is-changed' : ''}">
      ${asked === undefined ? nothing : html`<div class="asked">${askedInput(asked)}</div>`}
      <div class="said">${this.said(answer, was)}</div>
    </li>`;
  }

  private said(answer: Reading, was: Reading | null): TemplateResult {
    if (answer.kind === 'scores') return this.scores(answer, was?.kind === 'scores' ? was : null);
    if (answer.kind === 'number') return numberSaid(answer.value, was);
    return html`${valueSaid(answer)}
      ${was !== null && isChanged(answer, was) ? html`<div class="was"><span class="quiet">before</span> ${valueSaid(was)}</div>` : nothing}`;
  }

  private scores(answer: Reading & { kind: 'scores' }, was: (Reading & { kind: 'scores' }) | null): TemplateResult {
    const before = new Map(was?.scores);
    const wasLabel = was === null || isUndecided(was) || was.label === answer.label ? null : was.label;
    const { length } = this.answers;
    const most = length === 1 ? SCORES_OF_ONE : length <= FEW ? FEW : 1;
    const first = answer.scores.filter(
      ([name], place) => place < most || name === answer.label || name === wasLabel,
    );
    const others = answer.scores.filter((each) => !first.includes(each));
    const bar = (each: [string, number]): TemplateResult => scoreBar(each, before.get(each[0]), answer.label, wasLabel);
    return html`
      ${most > 1
        ? html`<p class="headline"><strong class="answer-label">${answer.label.slice(0, 200)}</strong>
            ${wasLabel === null ? nothing : html`<span class="was-label">was <s>${wasLabel.slice(0, 200)}</s></span>`}
            ${isUndecided(was) ? html`<span class="was-label">was undecided</span>` : nothing}</p>`
        : nothing}
      <ul class="scores">${first.map(bar)}</ul>
      ${others.length === 0
        ? nothing
        : html`<details class="more-scores"><summary>${others.length} more</summary>
            <ul class="scores">${others.slice(0, MOST_ANSWERS).map(bar)}</ul>
          </details>`}
    `;
  }
}

/** A label's bar: as long as its score, with a mark where the score was before teaching. */
function scoreBar([name, score]: [string, number], was: number | undefined, label: string, wasLabel: string | null): TemplateResult {
  const place = (share: number): string => `${Math.min(1, Math.max(0, share)) * 100}%`;
  const isAnswer = name === label;
  const wasAnswer = name === wasLabel;
  return html`<li class="score ${isAnswer ? 'is-answer' : ''} ${wasAnswer ? 'was-answer' : ''}">
    <span class="score-name" title=${name}>${wasAnswer ? html`<span class="visually-hidden">was </span>` : nothing}${name.slice(0, 200)}</span>
    <span class="bar" aria-hidden="true">
      <span class="bar-now" ${styles({ width: place(score) })}></span>
      ${was === undefined ? nothing : html`<span class="bar-was" ${styles({ left: place(was) })}></span>`}
    </span>
    <span class="score-value">${percent(score)}${was === undefined ? nothing : html`<span class="visually-hidden">, before ${percent(was)}</span>`}</span>
  </li>`;
}

function numberSaid(value: number, was: Reading | null): TemplateResult {
  const before = was?.kind === 'number' ? was.value : null;
  const change = before === null ? 0 : value - before;
  return html`<p class="headline"><strong class="answer-number">${numberText(value)}</strong>
    ${before === null ? nothing : html`<span class="was-label">was ${numberText(before)} (${change >= 0 ? '+' : '−'}${numberText(Math.abs(change))})</span>`}</p>`;
}

function valueSaid(reading: Reading): TemplateResult {
  if (reading.kind === 'text') return mediaValue(reading.text, 'answer') ?? html`<p class="answer-text">${reading.text.slice(0, MOST_TEXT)}</p>`;
  if (reading.kind !== 'other') return html`${reading.kind === 'scores' ? reading.label : numberText(reading.value)}`;
  return html`<div class="answer-text">${otherSaid(reading.value)}</div>`;
}

/** Several parts of one answer: files as files, the rest as JSON. */
function otherSaid(value: Json): TemplateResult {
  if (value === null) return html`<span class="quiet">nothing</span>`;
  if (!isRow(value)) return html`<code>${JSON.stringify(value).slice(0, MOST_TEXT)}</code>`;
  const parts = Object.entries(value).filter(([, part]) => part !== null);
  return html`<dl class="parts">${parts.slice(0, MOST_ANSWERS).map(
    ([name, part]) => html`<dt>${name.slice(0, 200)}</dt>
      <dd>${(typeof part === 'string' && mediaValue(part, name)) || (typeof part === 'object' ? JSON.stringify(part) : String(part)).slice(0, MOST_TEXT)}</dd>`,
  )}</dl>`;
}
