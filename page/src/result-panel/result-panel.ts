import { html, nothing, type TemplateResult } from 'lit';
import { customElement, property } from 'lit/decorators.js';
import { LightElement } from '../light/light-element';
import type { Phase, Run } from '../runs/run';
import '../adaptation-panel/adaptation-panel';
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

/** What has come of a run so far. */
@customElement('result-panel')
export class ResultPanel extends LightElement {
  @property({ attribute: false }) run!: Run;
  @property({ type: Number }) version = 0;
  @property({ type: Boolean }) joins = false;

  override render(): TemplateResult {
    const { run } = this;
    return html`
      <p class="state ${run.phase}" role="status" data-phase=${run.phase}>
        <strong>${WORDS[run.phase]}</strong>
        ${run.phase === 'queued' && run.position ? html`, place ${run.position} of the queue` : nothing}
        ${run.seconds === null ? nothing : html` after ${run.seconds.toFixed(1)} s`}
      </p>
      ${run.error ? this.problem() : nothing}
      ${this.adapts ? html`<adaptation-panel .run=${run} .version=${this.version}></adaptation-panel>` : nothing}
      ${this.output()}
      ${run.phase === 'refused' ? nothing : this.logs()}
    `;
  }

  private get adapts(): boolean {
    const { course, early, report, input } = this.run;
    const isAsked = Array.isArray(input.examples) && input.examples.length > 0;
    const isRunning = this.run.phase === 'running';
    return course.steps.length > 0 || early !== null || report !== null || (isAsked && isRunning);
  }

  private problem(): TemplateResult {
    const { refused, error } = this.run;
    const isFull = refused !== null && [409, 429, 503].includes(refused.status);
    return html`
      <div class="problem" role="alert">
        ${isFull ? html`<strong>The server cannot take it now.</strong> ` : nothing}
        <span class="pre">${error}</span>
        ${refused?.retryAfter ? html` It asks to wait ${refused.retryAfter} s.` : nothing}
        ${isFull ? html`<button type="button" class="small" @click=${() => this.tell('run-again')}>Try again</button>` : nothing}
      </div>
    `;
  }

  private output(): TemplateResult | typeof nothing {
    const { run } = this;
    const soFar = run.chunks.length > 0 ? run.chunks : undefined;
    const value = run.output ?? (run.isOver && run.phase === 'succeeded' ? null : soFar);
    if (value === undefined) return nothing;
    const shown = html`<output-value .value=${value} .version=${this.version} .joins=${this.joins}></output-value>`;
    if (this.adapts) return html`<details><summary>Whole output</summary>${shown}</details>`;
    return html`<section aria-label="Output">
      <h3>Output</h3>
      ${shown}
    </section>`;
  }

  private logs(): TemplateResult {
    const isOpen = this.run.phase === 'failed';
    return html`<details class="logs" ?open=${isOpen}>
      <summary>Logs</summary>
      <log-view .text=${this.run.logs}></log-view>
    </details>`;
  }
}
