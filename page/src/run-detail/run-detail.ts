import { html, nothing, type PropertyValues, type TemplateResult } from 'lit';
import { customElement, property, state } from 'lit/decorators.js';
import { Refused } from '../api/client';
import type { Kind, RunRecord, Values } from '../api/types';
import { hashOf } from '../app-shell/route';
import { age } from '../gist/age';
import type { Known } from '../gist/asked';
import { askedGist } from '../gist/gist';
import { LightElement } from '../light/light-element';
import { shortened } from '../request-json/shortened';
import { Run, recordOf } from '../runs/run';
import { Watching } from '../runs/watching';
import '../copy-as/copy-as';
import '../gist/gist.css';
import '../result-panel/result-panel';
import './run-detail.css';

/** One that runs or has run: its request and its result, to be followed and to be run again. */
@customElement('run-detail')
export class RunDetail extends LightElement {
  @property() kind: Kind = 'predictions';
  @property() runId = '';
  @property({ attribute: false }) fields: Known[] = [];
  @state() private record: RunRecord | null = null;
  @state() private problem = '';
  @state() private refusal = '';
  private readonly watching = new Watching(this);

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.watching.run?.forsake();
  }

  override willUpdate(changed: PropertyValues<this>): void {
    if (changed.has('runId') || changed.has('kind')) void this.open();
  }

  override render(): TemplateResult {
    if (this.problem) return html`<p class="problem" role="alert">${this.problem}</p>`;
    const { record } = this;
    if (!record) return html`<p class="quiet" role="status">Loading</p>`;
    const input = (record.input ?? {}) as Values;
    const { run } = this.watching;
    return html`
      <p class="detail-back"><a href=${hashOf(this.kind)}>All ${this.kind}</a></p>
      <div class="detail-head">
        <div>
          ${askedGist(record, this.fields)}
          <h2 class="detail-id">${record.id}</h2>
          <p class="quiet">${age(record.created_at)} ${record.owner ? `by ${record.owner}` : ''}</p>
        </div>
        <div class="row">
          <button type="button" @click=${() => this.tell('load-request', { kind: this.kind, input })}>Run again</button>
          ${run?.isOver === false || !run ? html`<button type="button" ?disabled=${!run} @click=${this.cancel}>Cancel</button>` : nothing}
        </div>
      </div>
      ${this.refusal ? html`<p class="problem" role="alert">${this.refusal}</p>` : nothing}
      <details class="request"><summary>Request as JSON</summary><pre class="text" tabindex="0">${shortened(input).text}</pre></details>
      <copy-as .kind=${this.kind} .values=${input}></copy-as>
      ${run ? html`<result-panel .run=${run} .version=${this.watching.version}></result-panel>` : nothing}
    `;
  }

  private async cancel(): Promise<void> {
    this.refusal = '';
    try {
      await this.watching.run?.cancel();
    } catch (error) {
      if (error instanceof Refused) this.refusal = error.message; // a server that is gone says so itself
    }
  }

  private async open(): Promise<void> {
    const { runId, kind } = this;
    this.record = null;
    this.problem = this.refusal = '';
    this.watching.run?.forsake();
    try {
      const record = await recordOf(kind, runId);
      if (runId !== this.runId || !this.isConnected) return;
      this.record = record;
      const run = new Run(kind, (record.input ?? {}) as Values, runId);
      run.phase = record.status === 'starting' ? 'queued' : 'running';
      this.watching.watch(run);
      await run.follow();
    } catch (error) {
      if (this.isConnected && runId === this.runId) this.problem = (error as Error).message;
    }
  }
}
