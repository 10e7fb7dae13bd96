import { html, nothing, type TemplateResult } from 'lit';
import { customElement, property, state } from 'lit/decorators.js';
import { Refused, getJson, sendJson } from '../api/client';
import type { Adapter, AdapterPage, Values } from '../api/types';
import { downloadAdapter } from '../adapter-keep/adapter-keep';
import { Polling } from '../history-view/polling';
import { age } from '../gist/age';
import type { Known } from '../gist/asked';
import { LightElement } from '../light/light-element';
import { styles } from '../light/styles';
import { expectedOf, factsOf, labelWords, methodWords, shownName, taughtWords } from './adapter-words';
import '../adapter-compare/adapter-compare';
import './adapters-list.css';

/** The adapters that are kept: used, named, compared, downloaded, removed. */
@customElement('adapters-list')
export class AdaptersList extends LightElement {
  @property() compared: string | null = null;
  @property({ attribute: false }) inputs: Values = {};
  @property({ attribute: false }) fields: Known[] = [];
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
      <h2 class="visually-hidden">Adapters</h2>
      <div class="filters">
        <label for="by-name">Name</label>
        <input id="by-name" .value=${this.name} @change=${(event: Event) => this.filter('name', event)} />
        <label for="by-label">Label</label>
        <input id="by-label" .value=${this.label} @change=${(event: Event) => this.filter('label', event)} />
      </div>
      ${problem ? html`<p class="problem" role="alert">${problem}</p>` : nothing}
      ${this.adapters === null ? html`<p class="quiet">Loading</p>` : this.cards(this.adapters)}
      ${this.chosen.length > 0 ? this.comparison() : nothing}
    `;
  }

  private cards(adapters: Adapter[]): TemplateResult {
    if (adapters.length === 0) return html`<p class="quiet">There are none. A prediction with examples makes one.</p>`;
    return html`<ul class="adapters" aria-label="Adapters">${adapters.map((each) => this.card(each))}</ul>`;
  }

  private card(adapter: Adapter): TemplateResult {
    const { id } = adapter;
    const labels = labelWords(adapter);
    const facts = factsOf(adapter);
    return html`<li class="adapter">
      <div class="adapter-who">
        <h3>${shownName(adapter)}</h3>
        ${adapter.name ? html`<code class="quiet">${id}</code>` : nothing}
        <p class="quiet">${age(adapter.created_at)}${facts.map((each) => html` · <span>${each}</span>`)}</p>
      </div>
      <div class="adapter-taught">
        <p>${taughtWords(adapter)}</p>
        ${labels ? html`<p class="quiet">${labels}</p>` : nothing}
        <p class="quiet">${methodWords(adapter)}</p>
      </div>
      <div class="adapter-score">${scoreOf(adapter)}</div>
      <div class="adapter-acts">${this.acts(adapter)}</div>
    </li>`;
  }

  private acts(adapter: Adapter): TemplateResult {
    const { id } = adapter;
    const shown = shownName(adapter);
    const isChosen = this.chosen.includes(id);
    return html`
      <label class="adapter-compared"><input type="checkbox" aria-label="Compare ${shown}" .checked=${isChosen}
        ?disabled=${this.chosen.length === 2 && !isChosen} @change=${() => this.choose(id)} /> Compare</label>
      <button type="button" class="small" aria-label="Use ${shown}" @click=${() => this.tell('use-adapter', id)}>Use</button>
      <button type="button" class="small" aria-label="Download ${shown}"
        @click=${() => this.attempt(() => downloadAdapter(id, 'safetensors'))}>Download</button>
      <button type="button" class="small" aria-label="Download ${shown} for PEFT"
        @click=${() => this.attempt(() => downloadAdapter(id, 'peft'))}>PEFT</button>
      <button type="button" class="small ${this.removing === id ? 'danger' : ''}" aria-label="Remove ${shown}"
        @click=${() => this.removeAdapter(id)}>${this.removing === id ? 'Really remove?' : 'Remove'}</button>
    `;
  }

  private comparison(): TemplateResult {
    const found = this.chosen.map((id) => this.adapters?.find((each) => each.id === id));
    const chosen = found.filter((each): each is Adapter => each !== undefined);
    return html`<adapter-compare .adapters=${chosen} .inputs=${this.inputs} .fields=${this.fields}></adapter-compare>`;
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

function scoreOf(adapter: Adapter): TemplateResult {
  const expected = expectedOf(adapter);
  if (expected === null) return html`<p class="quiet">Its accuracy was not estimated.</p>`;
  const { after, before, noun, share } = expected;
  return html`
    <p><strong>${after}</strong> <span class="quiet">${noun}${before ? `, was ${before}` : ''}</span></p>
    ${share === null ? nothing : html`<div class="share" aria-hidden="true"><span ${styles({ width: `${share * 100}%` })}></span></div>`}
  `;
}
