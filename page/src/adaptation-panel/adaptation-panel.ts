import { html, nothing, type TemplateResult } from 'lit';
import { customElement, property } from 'lit/decorators.js';
import type { Json } from '../api/types';
import { LightElement } from '../light/light-element';
import type { Run } from '../runs/run';
import { answerRows, type Answer } from './answers';
import { reportWords } from './words';
import '../adapter-keep/adapter-keep';
import '../loss-chart/loss-chart';

const MOST_ROWS = 100;

/** How a run adapts: its step and curve while it learns, then answers, report and adapter. */
@customElement('adaptation-panel')
export class AdaptationPanel extends LightElement {
  @property({ attribute: false }) run!: Run;
  /** Changes with each change of the run. */
  @property({ type: Number }) version = 0;

  override render(): TemplateResult {
    const { run } = this;
    return html`
      <section class="adaptation" aria-label="Adaptation">
        <h3>Adaptation</h3>
        ${this.progress()}
        ${run.course.steps.length > 0
          ? html`<loss-chart .steps=${run.course.steps} .count=${run.course.steps.length}></loss-chart>`
          : nothing}
        ${this.answers()} ${this.report()}
        ${this.adapter ? html`<adapter-keep .adapter=${this.adapter}></adapter-keep>` : nothing}
      </section>
    `;
  }

  private progress(): TemplateResult {
    const { course, isOver } = this.run;
    const step = course.steps.at(-1);
    if (!step) return html`<p class="quiet">${isOver ? 'No step was taken.' : 'No step yet.'}</p>`;
    const left = course.secondsLeft;
    const total = course.total;
    return html`
      <p class="row">
        <progress max=${total ?? 1} .value=${step.number} aria-label="Steps"></progress>
        <span>step <strong>${step.number}</strong>${total ? html` of ${total}` : nothing}</span>
        ${step.loss === null ? nothing : html`<span>loss <strong>${step.loss.toFixed(4)}</strong></span>`}
        ${step.norm === null ? nothing : html`<span>gradient norm <strong>${step.norm.toPrecision(3)}</strong></span>`}
        ${left === null || isOver ? nothing : html`<span>about ${Math.ceil(left)} s left</span>`}
      </p>
    `;
  }

  private get output(): Record<string, Json> | null {
    const { output } = this.run;
    return output && typeof output === 'object' && !Array.isArray(output) ? output : null;
  }

  private get adapter(): string | null {
    const id = this.output?.adapter ?? this.run.metrics['adaptation.adapter'];
    return this.run.isOver && typeof id === 'string' && id !== '' ? id : null;
  }

  private answers(): TemplateResult | typeof nothing {
    const columns = [
      ['before', listOf(this.output?.before)],
      ['early', this.run.early?.predictions ?? null],
      ['after', listOf(this.output?.predictions)],
    ] as const;
    const shown = columns.filter(([, answers]) => answers !== null);
    const rows = answerRows(this.run.input, shown.map(([, answers]) => answers));
    if (rows.length === 0) return nothing;
    return html`
      <div class="scroll" tabindex="0" role="region" aria-label="Answers side by side">
        <table>
          <caption>Answers</caption>
          <thead><tr><th scope="col">input</th>${shown.map(([name]) => html`<th scope="col">${name}</th>`)}</tr></thead>
          <tbody>
            ${rows.slice(0, MOST_ROWS).map(
              (row) => html`<tr>
                <th scope="row" class="input">${row.input.slice(0, 300)}</th>
                ${row.answers.map((each, place) => answerCell(each, row.answers[place - 1] ?? null))}
              </tr>`,
            )}
          </tbody>
        </table>
      </div>
      ${this.run.early ? html`<p class="quiet">Early, before any step: ${this.run.early.expected}.</p>` : nothing}
    `;
  }

  private report(): TemplateResult | typeof nothing {
    const { report } = this.run;
    if (!report) return nothing;
    return html`
      ${reportWords(report).map((each) => html`<p class="words">${each}</p>`)}
      <details><summary>Report as JSON</summary>
        <pre class="text" tabindex="0">${JSON.stringify(report, null, 1)}</pre>
      </details>
    `;
  }
}

function answerCell(answer: Answer | null, before: Answer | null): TemplateResult {
  if (!answer) return html`<td class="quiet">–</td>`;
  const isOther = before !== null && before.label !== answer.label;
  return html`<td>
    <span class=${isOther ? 'changed' : ''}>${answer.label.slice(0, 200)}</span>
    ${isOther ? html`<span class="visually-hidden">(another answer)</span>` : nothing}
    ${answer.score === null
      ? nothing
      : html`<meter min="0" max="1" .value=${answer.score} aria-label="score"></meter>
          <span class="quiet">${(answer.score * 100).toFixed(0)}%</span>`}
  </td>`;
}

function listOf(value: Json | undefined): Json[] | null {
  return Array.isArray(value) ? value : null;
}
