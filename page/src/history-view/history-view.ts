import { html, nothing, type PropertyValues, type TemplateResult } from 'lit';
import { customElement, property, state } from 'lit/decorators.js';
import { getJson } from '../api/client';
import type { Kind, RunPage, RunRecord, Status, Values } from '../api/types';
import { hashOf, type Listed } from '../app-shell/route';
import { age, seconds } from '../gist/age';
import type { Known } from '../gist/asked';
import { gist } from '../gist/gist';
import { LightElement } from '../light/light-element';
import { Polling } from './polling';
import { WholeRecords } from './whole-records';
import '../adapters-list/adapters-list';
import '../run-detail/run-detail';
import '../gist/gist.css';
import './history-view.css';

const STATUSES: Status[] = ['starting', 'processing', 'succeeded', 'failed', 'canceled'];
const NAMES: Record<Listed, string> = {
  predictions: 'Predictions',
  trainings: 'Trainings',
  adapters: 'Adapters',
};

const NO_FIELDS: Record<Kind, Known[]> = { predictions: [], trainings: [] };

/** What was run, and what came of it: live, filtered, one page after the other. */
@customElement('history-view')
export class HistoryView extends LightElement {
  @property() listed: Listed = 'predictions';
  @property() runId: string | null = null;
  @property() compared: string | null = null;
  @property({ attribute: false }) inputs: Values = {};
  @property({ attribute: false }) fields: Record<Kind, Known[]> = NO_FIELDS;
  /** Null while the server has not said. */
  @state() private records: RunRecord[] | null = null;
  @state() private next: string | null = null;
  @state() private status = '';
  @state() private cursors: string[] = [];
  private readonly polling = new Polling(this, () => this.load());
  private readonly whole = new WholeRecords();

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
        <div class="views" role="group" aria-label="What is listed">
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
      return html`<adapters-list .compared=${this.compared} .inputs=${this.inputs} .fields=${this.fields.predictions}></adapters-list>`;
    }
    if (this.runId) return html`<run-detail .kind=${this.listed} .runId=${this.runId} .fields=${this.fields[this.listed]}></run-detail>`;
    return this.list();
  }

  private list(): TemplateResult {
    return html`
      <div class="filters">
        <label for="status">Status</label>
        <select id="status" @change=${this.filter}>
          <option value="">all</option>
          ${STATUSES.map((each) => html`<option value=${each} ?selected=${each === this.status}>${each}</option>`)}
        </select>
        <span class="pages">
          <button type="button" class="small" ?disabled=${this.cursors.length === 0} @click=${this.newer}>Newer</button>
          <button type="button" class="small" ?disabled=${this.next === null} @click=${this.older}>Older</button>
        </span>
      </div>
      ${this.polling.problem ? html`<p class="problem" role="alert">${this.polling.problem}</p>` : nothing}
      ${this.records === null ? html`<p class="quiet">Loading</p>` : this.entries(this.records)}
    `;
  }

  private entries(records: RunRecord[]): TemplateResult {
    if (records.length === 0) return html`<p class="quiet">There are none.</p>`;
    return html`<ul class="entries" aria-label=${NAMES[this.listed]}>${records.map((each) => this.entry(each))}</ul>`;
  }

  private entry(record: RunRecord): TemplateResult {
    const kind = this.listed === 'trainings' ? 'trainings' : 'predictions';
    const time = record.metrics?.predict_time;
    return html`<li class="entry">
      <a class="entry-link" href=${hashOf(kind, record.id)}>${gist(kind, this.whole.complete(record), this.fields[kind])}</a>
      <div class="entry-facts">
        <span class="state ${record.status}">${record.status}</span>
        <span>${age(record.created_at)}</span>
        ${typeof time === 'number' ? html`<span>in ${seconds(time)}</span>` : nothing}
        ${record.owner ? html`<span>by ${record.owner}</span>` : nothing}
        <code class="entry-id">${record.id}</code>
      </div>
    </li>`;
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
    void this.whole.read(listed, page.results, () => this.requestUpdate()).catch(() => undefined); // the next turn reads again
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
