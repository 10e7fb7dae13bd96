import { html, nothing, type TemplateResult } from 'lit';
import { customElement, property } from 'lit/decorators.js';
import { isRow } from '../output-value/shapes';
import { LightElement } from '../light/light-element';
import type { Run } from '../runs/run';
import { stagesOf, type Stage } from './stages';
import { reportWords } from './words';
import '../adapter-keep/adapter-keep';
import '../loss-chart/loss-chart';

const SIGNS: Record<Stage['state'], string> = { done: '✓', active: '●', ahead: '○', skipped: '–' };

/** How a run learns: its stages and curve, then what its report says, and its adapter. */
@customElement('adaptation-panel')
export class AdaptationPanel extends LightElement {
  @property({ attribute: false }) run!: Run;
  /** Changes with each change of the run. */
  @property({ type: Number }) version = 0;

  override render(): TemplateResult {
    const { run } = this;
    const stages = stagesOf(run);
    return html`
      <section class="adaptation" aria-label="Adaptation">
        <h3>${run.isOver ? 'How it learned' : 'Learning'}</h3>
        ${stages.length > 0 ? html`<ol class="stages" aria-label="Stages">${stages.map(stage)}</ol>` : nothing}
        ${this.progress()}
        ${run.course.steps.length > 0
          ? html`<loss-chart .steps=${run.course.steps} .count=${run.course.steps.length}></loss-chart>`
          : nothing}
        ${this.report()}
        ${this.adapter ? html`<adapter-keep .adapter=${this.adapter}></adapter-keep>` : nothing}
      </section>
    `;
  }

  private progress(): TemplateResult | typeof nothing {
    const { course, isOver } = this.run;
    const step = course.steps.at(-1);
    if (!step) return nothing;
    const left = course.secondsLeft;
    const total = course.total;
    return html`
      <p class="row progress">
        <progress max=${total ?? 1} .value=${step.number} aria-label="Steps"></progress>
        <span>step <strong>${step.number}</strong>${total ? html` of ${total}` : nothing}</span>
        ${step.loss === null ? nothing : html`<span>loss <strong>${step.loss.toPrecision(3)}</strong></span>`}
        ${step.norm === null ? nothing : html`<span>gradient norm <strong>${step.norm.toPrecision(3)}</strong></span>`}
        ${left === null || isOver ? nothing : html`<span>about ${Math.ceil(left)} s left</span>`}
      </p>
    `;
  }

  private get adapter(): string | null {
    const { output, metrics, isOver } = this.run;
    const id = (output !== undefined && isRow(output) ? output.adapter : null) ?? metrics['adaptation.adapter'];
    return isOver && typeof id === 'string' && id !== '' ? id : null;
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

function stage({ name, state, about }: Stage): TemplateResult {
  return html`<li class="stage is-${state}" aria-current=${state === 'active' ? 'step' : nothing}>
    <span class="stage-sign" aria-hidden="true">${SIGNS[state]}</span>
    <span><span class="stage-name">${name}</span>${about ? html`<span class="quiet stage-about">${about}</span>` : nothing}</span>
  </li>`;
}
