import { html, nothing, type TemplateResult } from 'lit';
import { customElement, state } from 'lit/decorators.js';
import { call, refusal } from '../api/client';
import type { Check, Finding, GradientReport, SelfTest } from '../api/types';
import { LightElement } from '../light/light-element';
import { styles } from '../light/styles';
import { layersOf, type Cell } from './layers';
import { findingsOf, verdictOf, type Verdict } from './verdict';
import './selftest-view.css';

const MOST_NAMES = 200;

/** The gradient self-test: its verdict, what is not proved, each check, and the gradients by layer. */
@customElement('selftest-view')
export class SelfTestView extends LightElement {
  @state() private report: SelfTest | null = null;
  @state() private problem = '';
  @state() private isRunning = false;

  override connectedCallback(): void {
    super.connectedCallback();
    void this.ask('GET');
  }

  override render(): TemplateResult {
    const { report } = this;
    return html`<section class="panel selftest" aria-labelledby="selftest-title">
      <h2 id="selftest-title" class="visually-hidden">Self-test</h2>
      <div class="verdict-row">
        ${report ? verdict(verdictOf(report)) : html`<p class="quiet">${this.problem ? '' : 'Loading'}</p>`}
        <div class="row">
          <button type="button" ?disabled=${this.isRunning} @click=${() => this.ask('POST')}>Run it again</button>
          <span role="status" class="quiet">${this.isRunning ? 'Running' : ''}</span>
        </div>
      </div>
      ${this.problem ? html`<p class="problem" role="alert">${this.problem}</p>` : nothing}
      ${report?.detail ? html`<p>${report.detail}</p>` : nothing}
      ${report?.reports.map((each) => findingsOf(each).map(finding)) ?? nothing}
      ${report ? openQuestions(verdictOf(report)) : nothing}
      ${report?.reports.map((each) => section(each)) ?? nothing}
    </section>`;
  }

  private async ask(method: 'GET' | 'POST'): Promise<void> {
    this.isRunning = method === 'POST';
    this.problem = '';
    try {
      this.report = await ask(method);
    } catch (error) {
      this.problem = (error as Error).message;
    }
    this.isRunning = false;
  }
}

function verdict({ words, state, basis }: Verdict): TemplateResult {
  return html`<div><p class="verdict state ${state}" role="status">${words}</p><p>${basis}</p></div>`;
}

/** Render what the verdict does not cover. */
function openQuestions({ unverified, leftOut }: Verdict): TemplateResult | typeof nothing {
  if (unverified.length === 0 && leftOut.length === 0) return nothing;
  return html`<section class="open-questions" aria-labelledby="open-title">
    <h3 id="open-title">Not proved</h3>
    <ul>
      ${unverified.length === 0
        ? nothing
        : html`<li>${unverified.length === 1 ? 'One parameter' : `${unverified.length.toLocaleString('en')} parameters`}: the gradient exists, but its effect on the loss is too small to verify its value.
            <details><summary>Which</summary><ul class="names" tabindex="0" aria-label="Parameters that are not proved">${unverified.slice(0, MOST_NAMES).map((each) => html`<li><code>${each}</code></li>`)}</ul></details></li>`}
      ${leftOut.map(([name, reason]) => html`<li>The check <code>${name}</code> was left out${reason ? `: ${reason}` : ''}.</li>`)}
    </ul>
  </section>`;
}

function section(report: GradientReport): TemplateResult {
  const passed = report.checks.filter((each) => each.status === 'passed').length;
  return html`<section class="part">
    <details class="checks" ?open=${!report.passed}><summary>${titleOf(report)} <span class="quiet">${report.precision}</span>
      <span class="state ${report.passed ? 'succeeded' : 'failed'}">${report.passed ? 'passed' : 'failed'}</span>
      <span class="quiet">${passed} of ${report.checks.length} checks, ${report.seconds.toFixed(2)} s</span></summary>
      ${checks(report.checks, titleOf(report))}
    </details>
    ${heatMap(report.gradient_norms)}
  </section>`;
}

/** Name a report by what it checks. */
function titleOf({ checks: all }: GradientReport): string {
  const has = (name: string): boolean => all.some((each) => each.name === name);
  if (has('another-thread')) return 'Ways of calling';
  return has('patterns') || has('probe') ? 'Task' : 'Gradients';
}

async function ask(method: 'GET' | 'POST'): Promise<SelfTest> {
  const answer = await call('selftest', { method });
  const isReport = answer.ok || answer.status === 503;
  const copy = answer.clone();
  const body = isReport ? ((await answer.json()) as SelfTest) : null;
  if (body && Array.isArray(body.reports)) return body;
  throw await refusal(copy);
}

function finding(found: Finding): TemplateResult {
  const kind = { FAIL: 'failed', WARN: 'warned', NOTE: 'noted' }[found.level];
  return html`<div class="finding ${kind}">
    <p><strong>${found.level}</strong> <code>${found.code}</code> ${found.message}</p>
    ${found.module ? html`<p>in <code>${found.module}</code></p>` : nothing}
    ${found.line ? html`<pre class="text" tabindex="0" aria-label="The line">${found.line}</pre>` : nothing}
    ${found.parameters?.length ? html`<p class="quiet">${found.parameters.slice(0, 8).join(', ')}</p>` : nothing}
  </div>`;
}

function checks(all: Check[], title: string): TemplateResult {
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Checks: ${title}"><table>
    <thead><tr><th scope="col">check</th><th scope="col">status</th><th scope="col">seconds</th><th scope="col">measured</th></tr></thead>
    <tbody>${all.map(
      (each) => html`<tr>
        <th scope="row">${each.name}</th>
        <td><span class="state ${each.status}">${each.status}</span></td>
        <td>${each.seconds.toFixed(3)}</td>
        <td>${Object.entries(each.numbers ?? {}).map(([name, value]) => `${name} ${Number(value).toPrecision(3)}`).join(', ')}</td>
      </tr>`,
    )}</tbody>
  </table></div>`;
}

function heatMap(norms: Record<string, number | null>): TemplateResult | typeof nothing {
  const layers = layersOf(norms);
  if (layers.length === 0) return nothing;
  return html`<details open class="heat">
    <summary>Gradient norms by layer</summary>
    <p class="quiet">From 1e-8 (pale) to 1e3 (strong); a crossed one got none.</p>
    ${layers.map(
      ({ name, cells }) => html`<div class="layer">
        <span class="layer-name">${name}</span>
        <ul aria-label="Gradient norms of ${name}">${cells.map(heatCell)}</ul>
      </div>`,
    )}
  </details>`;
}

function heatCell({ parameter, norm, heat }: Cell): TemplateResult {
  const said = `${parameter}: ${norm === null ? 'none' : norm.toExponential(1)}`;
  return html`<li class="cell-heat ${heat === null ? 'none' : ''}" title=${said}
    ${styles({ '--heat': String(heat ?? 0) })}><span class="visually-hidden">${said}</span></li>`;
}
