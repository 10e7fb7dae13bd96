import { html, nothing, type PropertyValues, type TemplateResult } from 'lit';
import { customElement, property, state } from 'lit/decorators.js';
import { getJson } from '../api/client';
import type { RunPage, RunRecord, Status, Values } from '../api/types';
import { hashOf, type Listed } from '../app-shell/route';
import { LightElement } from '../light/light-element';
import { Polling } from './polling';
import '../adapters-list/adapters-list';
import '../run-detail/run-detail';

const STATUSES: Status[] = ['starting', 'processing', 'succeeded', 'failed', 'canceled'];
const NAMES: Record<Listed, string> = {
  predictions: 'Predictions',
  trainings: 'Trainings',
  adapters: 'Adapters',
};

/** What was run, and what came of it: live, filtered, one page after the other. */
@customElement('history-view')
export class HistoryView extends LightElement {
  @property() listed: Listed = 'predictions';
  @property() runId: string | null = null;
  @property() compared: string | null = null;
  @property({ attribute: false }) inputs: Values = {};
  /** Null while the server has not said. */
  @state() private records: RunRecord[] | null = null;
  @state() private next: string | null = null;
  @state() private status = '';
  @state() private cursors: string[] = [];
  private readonly polling = new Polling(this, () => this.load());

  override willUpdate(changed: PropertyValues<this>): void {
    const isOther = changed.get('listed') !== undefined;
    const isBack = Boolean(changed.get('runId')) && this.runId === null; // from one run to the list
    if (isOther) {
      this.records = this.next = null;
      this.cursors = [];
    }
    if (isOther || isBack) void this.polling.now();
  }

  override render(): TemplateResult {
    return html`
      <section class="panel" aria-label="History">
        <div class="row" role="group" aria-label="What is listed">
          ${(Object.keys(NAMES) as Listed[]).map(
            (each) => html`<a class="button small" href=${hashOf(each)}
              aria-current=${each === this.listed ? 'true' : nothing}>${NAMES[each]}</a>`,
          )}
        </div>
        ${this.content()}
      </section>
    `;
  }

  private content(): TemplateResult {
    if (this.listed === 'adapters') {
      return html`<adapters-list .compared=${this.compared} .inputs=${this.inputs}></adapters-list>`;
    }
    if (this.runId) return html`<run-detail .kind=${this.listed} .runId=${this.runId}></run-detail>`;
    return this.list();
  }

  private list(): TemplateResult {
    return html`
      <div class="row">
        <label for="status">Status</label>
        <select id="status" @change=${this.filter}>
          <option value="">all</option>
          ${STATUSES.map((each) => html`<option value=${each} ?selected=${each === this.status}>${each}</option>`)}
        </select>
        <button type="button" class="small" ?disabled=${this.cursors.length === 0} @click=${this.newer}>Newer</button>
        <button type="button" class="small" ?disabled=${this.next === null} @click=${this.older}>Older</button>
      </div>
      ${this.polling.problem ? html`<p class="problem" role="alert">${this.polling.problem}</p>` : nothing}
      ${this.records === null ? html`<p class="quiet">Loading</p>` : this.table(this.records)}
    `;
  }

  private table(records: RunRecord[]): TemplateResult {
    if (records.length === 0) return html`<p class="quiet">There are none.</p>`;
    return html`<div class="scroll" tabindex="0" role="region" aria-label=${NAMES[this.listed]}>
      <table>
        <thead><tr>
          <th scope="col">id</th><th scope="col">status</th><th scope="col">made</th>
          <th scope="col">seconds</th><th scope="col">input</th>
        </tr></thead>
        <tbody>${records.map((each) => this.row(each))}</tbody>
      </table>
    </div>`;
  }

  private row(record: RunRecord): TemplateResult {
    return html`<tr>
      <th scope="row"><a href=${hashOf(this.listed, record.id)}>${record.id}</a></th>
      <td><span class="state ${record.status}">${record.status}</span></td>
      <td>${record.created_at ? new Date(record.created_at).toLocaleString() : ''}</td>
      <td>${secondsOf(record)}</td>
      <td class="input">${JSON.stringify(record.input ?? {}).slice(0, 120)}</td>
    </tr>`;
  }

  private async load(): Promise<void> {
    if (this.listed === 'adapters' || this.runId) return;
    const { listed } = this;
    const query = new URLSearchParams({ limit: '30' });
    if (this.status) query.set('status', this.status);
    const cursor = this.cursors.at(-1);
    if (cursor) query.set('cursor', cursor);
    const page = await getJson<RunPage>(`${listed}?${query}`);
    if (listed !== this.listed) return; // the reader has gone on meanwhile
    this.records = page.results;
    this.next = page.next ?? null;
  }

  private filter(event: Event): void {
    this.status = (event.target as HTMLSelectElement).value;
    this.cursors = [];
    void this.polling.now();
  }

  private older(): void {
    if (this.next) this.cursors = [...this.cursors, this.next];
    void this.polling.now();
  }

  private newer(): void {
    this.cursors = this.cursors.slice(0, -1);
    void this.polling.now();
  }
}

function secondsOf(record: RunRecord): string {
  const time = record.metrics?.predict_time;
  return typeof time === 'number' ? time.toFixed(2) : '';
}
