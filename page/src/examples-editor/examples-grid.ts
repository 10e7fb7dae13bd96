import { html, nothing, type TemplateResult } from 'lit';
import { customElement, property } from 'lit/decorators.js';
import { thumbnail } from '../answer-list/asked-input';
import { LightElement } from '../light/light-element';
import { cellText, type Row } from '../output-value/shapes';
import { putRight } from './row-marks';
import type { Suspect } from './suspects';

const MOST = 200;

/** Examples that are pictures or sounds: each small, with its label; a click gives it the chosen one. */
@customElement('examples-grid')
export class ExamplesGrid extends LightElement {
  @property({ attribute: false }) data: Row[] = [];
  @property() column = '';
  @property() target: string | null = null;
  @property({ attribute: false }) labels: string[] = [];
  @property() brush = '';
  @property({ attribute: false }) marked = new Map<number, string>();
  /** Those whose labels may be wrong, each put right by a click. */
  @property({ attribute: false }) suspects: Suspect[] = [];

  override render(): TemplateResult {
    return html`
      <ul class="tiles is-grid" aria-label="Examples">
        ${this.data.slice(0, MOST).map((each, place) => this.tile(each, place))}
      </ul>
      <datalist id="grid-labels">${this.labels.map((each) => html`<option value=${each}></option>`)}</datalist>
      ${this.data.length > MOST ? html`<p class="quiet">and ${(this.data.length - MOST).toLocaleString('en')} more</p>` : nothing}
    `;
  }

  /** Bring a tile into sight. */
  showRow(place: number): void {
    this.querySelectorAll('.tile')[place]?.scrollIntoView({ block: 'nearest' });
  }

  private tile(row: Row, place: number): TemplateResult {
    const { target, brush } = this;
    const name = `Example ${place + 1}`;
    const shown = thumbnail(cellText(row[this.column]), name) ?? html`<span class="quiet">${cellText(row[this.column]).slice(0, 60)}</span>`;
    return html`<li class="tile ${this.marked.has(place) ? 'is-marked' : ''}" title=${this.marked.get(place) ?? nothing}>
      ${target !== null && brush !== ''
        ? html`<button type="button" class="tile-pick" aria-label="Label ${name} as ${brush}"
            @click=${() => this.write(place, brush)}>${shown}</button>`
        : shown}
      ${target === null
        ? nothing
        : html`<input list="grid-labels" .value=${cellText(row[target])} placeholder=${target} aria-label="${target} of row ${place + 1}"
            @change=${(event: Event) => this.write(place, (event.target as HTMLInputElement).value)} />`}
      ${this.suspects.filter((each) => each.place === place).map(putRight)}
      <button type="button" class="small tile-remove" aria-label="Remove row ${place + 1}"
        @click=${() => this.tell('rows-change', this.data.filter((_, other) => other !== place))}>×</button>
    </li>`;
  }

  private write(place: number, label: string): void {
    this.tell('rows-change', this.data.map((each, other) => (other === place ? { ...each, [this.target ?? '']: label } : each)));
  }
}
