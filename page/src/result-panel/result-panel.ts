import { html, nothing, type TemplateResult } from 'lit';
import { customElement, property } from 'lit/decorators.js';
import { predictionsOf } from '../answer-list/readings';
import type { Json, Values } from '../api/types';
import { LightElement } from '../light/light-element';
import { referenceOf } from '../output-value/media';
import { isRow, wholeText } from '../output-value/shapes';
import { plainError } from '../runs/messages';
import { ASKING, type Phase, type Run } from '../runs/run';
import '../adaptation-panel/adaptation-panel';
import '../answer-list/answer-list';
import '../log-view/log-view';
import '../output-value/output-value';

const WORDS: Record<Phase, string> = {
  sending: 'Sending',
  queued: 'Waiting for a slot',
  running: 'Running',
  succeeded: 'Succeeded',
  failed: 'Failed',
  canceled: 'Cancelled',
  refused: 'Not accepted',
};
const MOST_ASKED = 2000;
const FULL = [409, 429, 503];

/** What has come of a run so far: its answers first, then how it learned them. */
@customElement('result-panel')
export class ResultPanel extends LightElement {
  @property({ attribute: false }) run!: Run;
  @property({ type: Number }) version = 0;
  @property({ type: Boolean }) joins = false;
  /** Whether the answer can be replied to. */
  @property({ type: Boolean }) replies = false;
  /** Inputs beside which the form says what is wrong; it is not said here again. */
  @property({ attribute: false }) saidAt: string[] = [];

  /** How many labels of the examples may be wrong. */
  @property({ type: Number }) doubtful = 0;

  override render(): TemplateResult {
    const { run, doubtful } = this;
    const hasAnswers = (predictionsOf(run.output)?.length ?? 0) > 0;
    return html`
      <p class="state ${run.phase}" role="status" data-phase=${run.phase}>
        <strong>${WORDS[run.phase]}</strong>
        ${run.phase === 'queued' && run.position ? html`, place ${run.position} of the queue` : nothing}
        ${run.seconds === null ? nothing : html` after ${run.seconds.toFixed(1)} s`}
      </p>
      ${run.error ? this.problem() : nothing}
      ${doubtful > 0
        ? html`<p class="suspect">${doubtful === 1 ? 'A label of the examples looks' : `${doubtful} labels of the examples look`} wrong.
            <button type="button" class="small" @click=${() => this.tell('show-doubtful')}>Show ${doubtful === 1 ? 'it' : 'them'}</button></p>`
        : nothing}
      ${this.answers()}
      ${hasAnswers ? nothing : this.output()}
      ${this.adapts ? html`<adaptation-panel .run=${run} .version=${this.version}></adaptation-panel>` : nothing}
      ${hasAnswers ? html`<details><summary>Whole output</summary>${this.value(run.output)}</details>` : nothing}
      ${run.phase === 'refused' ? nothing : this.logs()}
    `;
  }

  private get adapts(): boolean {
    const { course, early, report, input } = this.run;
    const isAsked = Array.isArray(input.examples) && input.examples.length > 0;
    const isRunning = this.run.phase === 'running';
    return course.steps.length > 0 || early !== null || typeof report?.method === 'string' || (isAsked && isRunning);
  }

  private problem(): TemplateResult {
    const { refused, error } = this.run;
    const isFull = refused !== null && FULL.includes(refused.status);
    const [first] = this.saidAt;
    if (first !== undefined && !isFull) {
      return html`<p class="problem" role="alert">Correct what is marked in the form: ${this.saidAt.map(
        (each, place) => html`${place > 0 ? ', ' : ''}<code>${each}</code>`)}.</p>`;
    }
    return html`
      <div class="problem" role="alert">
        ${isFull ? html`<strong>The server cannot take it now.</strong> ` : nothing}
        <span class="pre">${plainError(error ?? '')}</span>
        ${refused?.retryAfter ? html` It asks to wait ${refused.retryAfter} s.` : nothing}
        ${isFull ? html`<button type="button" class="small" @click=${() => this.tell('run-again')}>Try again</button>` : nothing}
      </div>
    `;
  }

  /** The answers, or those that came before any step while the steps run. */
  private answers(): TemplateResult | typeof nothing {
    const { run } = this;
    const predictions = predictionsOf(run.output);
    const answers = predictions ?? run.early?.predictions ?? null;
    if (answers === null || answers.length === 0) return nothing;
    const said = predictions === null ? this.saidOfEarly() : nothing;
    if (predictions === null && answers.every((each) => typeof each === 'string' && referenceOf(each) !== null)) {
      const isReplaced = (run.output ?? null) !== null || run.chunks.length > 0;
      return isReplaced ? nothing : html`${said}${answers.map((each) => this.value(each))}`;
    }
    return html`
      ${said}
      <answer-list .input=${run.input} .answers=${answers} .untaught=${predictionsOf(run.output, 'before')}></answer-list>
    `;
  }

  /** What the answers that came before the end are worth. */
  private saidOfEarly(): TemplateResult {
    const { step = 0, expected = '' } = this.run.early ?? {};
    if (step > 0) return html`<p class="early" role="status"><strong>The answer so far</strong>${expected ? html`, ${expected}` : nothing}.</p>`;
    return html`<p class="early" role="status"><strong>First answer</strong>, before any step${expected ? html`: ${expected}` : nothing}.</p>`;
  }

  /** An output that is no list of answers: as it is, or as the answer of a chat. */
  private output(): TemplateResult | typeof nothing {
    const { run } = this;
    const soFar = run.chunks.length > 0 ? run.chunks : undefined;
    const value = run.output ?? (run.isOver && run.phase === 'succeeded' ? null : soFar);
    if (value === undefined) return nothing;
    const shown = this.value(withoutNothing(value));
    const asked = this.joins ? askedLast(run.input) : '';
    if (asked === '') return html`<section aria-label="Output">${shown}</section>`;
    return html`<section class="chat" aria-label="Output">
      <p class="message is-user">${asked.slice(0, MOST_ASKED)}</p>
      <div class="message is-assistant">${shown}${this.untaught(value)}</div>
      ${this.replies && run.phase === 'succeeded'
        ? html`<button type="button" class="small reply" @click=${() => this.tell('reply')}>Reply</button>`
        : nothing}
    </section>`;
  }

  /** What the same model says where it was taught nothing. */
  private untaught(value: Json): TemplateResult | typeof nothing {
    const { untaught } = this.run;
    if (untaught === null) return nothing;
    const isSame = untaught === wholeText(value);
    return html`<div class="was" role="status">${isSame || untaught === ASKING
      ? html`<span class="quiet">${isSame ? 'Teaching changed nothing here.' : 'Asking for the answer before teaching'}</span>`
      : html`<span class="quiet">before teaching</span> <p class="answer-text">${untaught.slice(0, MOST_ASKED)}</p>`}</div>`;
  }

  private value(value: Json | undefined): TemplateResult {
    return html`<output-value .value=${value} .version=${this.version} .joins=${this.joins}></output-value>`;
  }

  private logs(): TemplateResult {
    const { phase, error, logs } = this.run;
    const isSaid = bare(logs) === bare(error ?? ''); // as above, so the logs add nothing
    const isOpen = phase === 'failed' && this.saidAt.length === 0 && !isSaid;
    return html`<details class="logs" ?open=${isOpen}>
      <summary>Logs</summary>
      <log-view .text=${this.run.logs}></log-view>
    </details>`;
  }
}

/** Return what the last message asked; empty: the request has no such text. */
function askedLast({ prompt, messages }: Values): string {
  const last = Array.isArray(messages) ? (messages.at(-1) ?? null) : null;
  const content = isRow(last) ? last.content : prompt;
  return typeof content === 'string' ? content : '';
}

/** Return an object without the fields that hold nothing. */
function withoutNothing(value: Json): Json {
  if (!isRow(value)) return value;
  return Object.fromEntries(Object.entries(value).filter(([, each]) => each !== null));
}

/** Return a failure without the names of what has failed. */
function bare(text: string): string {
  return plainError(`Prediction failed: ${text.trim()}`);
}
