import { html, nothing, type TemplateResult } from 'lit';
import { customElement, property, state } from 'lit/decorators.js';
import { Refused, getJson, sendJson } from '../api/client';
import type { Adapter, AdapterPage, Values } from '../api/types';
import { downloadAdapter } from '../adapter-keep/adapter-keep';
import { Polling } from '../history-view/polling';
import { LightElement } from '../light/light-element';
import '../adapter-compare/adapter-compare';

/** The adapters that are kept: used, named, compared, downloaded, removed. */
@customElement('adapters-list')
export class AdaptersList extends LightElement {
  @property() compared: string | null = null;
  @property({ attribute: false }) inputs: Values = {};
  /** Null while the server has not said. */
  @state() private adapters: Adapter[] | null = null;
  @state() private name = '';
  @state() private label = '';
  @state() private chosen: string[] = [];
  @state() private problem = '';
  @state() private removing: string | null = null;
  private readonly polling = new Polling(this, () => this.load(), 5000);

  override connectedCallback(): void {
    super.connectedCallback();
    if (this.compared) this.chosen = [this.compared];
  }

  override render(): TemplateResult {
    const problem = this.problem || this.polling.problem;
    return html`
      <div class="row">
        <label for="by-name">Name</label>
        <input id="by-name" .value=${this.name} @change=${(event: Event) => this.filter('name', event)} />
        <label for="by-label">Has learnt the label</label>
        <input id="by-label" .value=${this.label} @change=${(event: Event) => this.filter('label', event)} />
      </div>
      ${problem ? html`<p class="problem" role="alert">${problem}</p>` : nothing}
      ${this.adapters === null ? html`<p class="quiet">Loading</p>` : this.table(this.adapters)}
      ${this.chosen.length > 0 ? this.comparison() : nothing}
    `;
  }

  private table(adapters: Adapter[]): TemplateResult {
    if (adapters.length === 0) return html`<p class="quiet">There are none. A prediction with examples makes one.</p>`;
    return html`<div class="scroll" tabindex="0" role="region" aria-label="Adapters">
      <table>
        <thead><tr>
          <th scope="col">compare</th><th scope="col">adapter</th><th scope="col">made</th>
          <th scope="col">examples</th><th scope="col">labels</th><th scope="col">score</th><th scope="col">do</th>
        </tr></thead>
        <tbody>${adapters.map((each) => this.row(each))}</tbody>
      </table>
    </div>`;
  }

  private row(adapter: Adapter): TemplateResult {
    const { id } = adapter;
    const shown = shownName(adapter);
    return html`<tr>
      <td><input type="checkbox" aria-label="Compare ${shown}" .checked=${this.chosen.includes(id)}
        ?disabled=${this.chosen.length === 2 && !this.chosen.includes(id)} @change=${() => this.choose(id)} /></td>
      <th scope="row">${shown}${adapter.name ? html` <code class="quiet">${id}</code>` : nothing}</th>
      <td>${adapter.created_at ? new Date(adapter.created_at).toLocaleString() : ''}</td>
      <td>${adapter.examples ?? ''}</td>
      <td class="input">${(adapter.labels ?? []).join(', ').slice(0, 100)}</td>
      <td>${scores(adapter)}</td>
      <td><div class="row">
        <button type="button" class="small" aria-label="Use ${shown}" @click=${() => this.tell('use-adapter', id)}>Use</button>
        <button type="button" class="small" aria-label="Download ${shown}"
          @click=${() => this.attempt(() => downloadAdapter(id, 'safetensors'))}>Download</button>
        <button type="button" class="small" aria-label="Remove ${shown}" @click=${() => this.removeAdapter(id)}>
          ${this.removing === id ? 'Really remove?' : 'Remove'}
        </button>
      </div></td>
    </tr>`;
  }

  private comparison(): TemplateResult {
    const found = this.chosen.map((id) => this.adapters?.find((each) => each.id === id));
    const chosen = found.filter((each): each is Adapter => each !== undefined);
    return html`<adapter-compare .adapters=${chosen} .inputs=${this.inputs}></adapter-compare>`;
  }

  private choose(id: string): void {
    this.chosen = this.chosen.includes(id) ? this.chosen.filter((each) => each !== id) : [...this.chosen, id];
  }

  private filter(which: 'name' | 'label', event: Event): void {
    this[which] = (event.target as HTMLInputElement).value.trim();
    void this.polling.now();
  }

  private async removeAdapter(id: string): Promise<void> {
    if (this.removing !== id) {
      this.removing = id;
      return;
    }
    this.removing = null;
    await this.attempt(() => sendJson('DELETE', `adapters/${encodeURIComponent(id)}`));
    this.chosen = this.chosen.filter((each) => each !== id);
    await this.polling.now();
  }

  private async load(): Promise<void> {
    const query = new URLSearchParams({ limit: '100' });
    if (this.name) query.set('name', this.name);
    if (this.label) query.set('label', this.label);
    try {
      this.adapters = (await getJson<AdapterPage>(`adapters?${query}`)).results;
    } catch (error) {
      if (!(error instanceof Refused && error.status === 404)) throw error;
      this.adapters = []; // this predictor keeps none
    }
  }

  private async attempt(act: () => Promise<unknown>): Promise<void> {
    this.problem = '';
    try {
      await act();
    } catch (error) {
      this.problem = (error as Error).message;
    }
  }
}

/** Return the name with its version, or the id. */
export function shownName(adapter: Adapter): string {
  return adapter.name ? `${adapter.name}@v${adapter.version ?? 1}` : adapter.id;
}

function scores({ score_before: before, score_after: after }: Adapter): string {
  const shown = (value: number | null | undefined): string => (typeof value === 'number' ? value.toFixed(2) : '–');
  return typeof after === 'number' ? `${shown(before)} → ${shown(after)}` : '';
}
