import { html, type TemplateResult } from 'lit';
import { customElement, property, state } from 'lit/decorators.js';
import { askedInput } from '../answer-list/asked-input';
import { LightElement } from '../light/light-element';
import { cellText, type Row } from '../output-value/shapes';

const MOST_KEYS = 9;

/** One example after the other, labelled by a digit; arrows move, Escape ends. */
@customElement('row-labeller')
export class RowLabeller extends LightElement {
  @property({ attribute: false }) data: Row[] = [];
  @property() target: string | null = null;
  @property({ attribute: false }) labels: string[] = [];
  @state() private place = 0;
  private keys: string[] = [];

  override connectedCallback(): void {
    super.connectedCallback();
    this.place = Math.max(0, this.data.findIndex((each) => cellText(each[this.target ?? '']).trim() === ''));
    this.keys = this.labels.slice(0, MOST_KEYS); // they keep their keys while the counts change
    void this.updateComplete.then(() => this.querySelector<HTMLElement>('.labeller')?.focus());
  }

  override render(): TemplateResult {
    const { target } = this;
    const row = this.data[this.place] ?? {};
    const inputs = Object.entries(row).filter(([name]) => name !== target);
    const only = inputs.length === 1 ? inputs[0]?.[1] : Object.fromEntries(inputs);
    const label = cellText(row[target ?? '']);
    return html`<div class="labeller" tabindex="0" role="group" aria-label="Label by keyboard" @keydown=${this.press}>
      <p class="quiet">Example ${this.place + 1} of ${this.data.length}. A digit labels it, arrows move, Esc ends.</p>
      <div class="labelled">${askedInput(only ?? '')}</div>
      <p class="row">${this.keys.map(
        (each, place) => html`<button type="button" class="small" aria-pressed=${label === each} @click=${() => this.give(each)}>
          <kbd>${place + 1}</kbd> ${each}</button>`,
      )}</p>
    </div>`;
  }

  private press(event: KeyboardEvent): void {
    const label = this.keys[Number(event.key) - 1];
    const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
    if (label !== undefined) this.give(label);
    else if (step !== undefined) this.move(step);
    else if (event.key === 'Escape') this.tell('labelled');
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  private give(label: string): void {
    const { target, place } = this;
    this.tell('rows-change', this.data.map((each, other) => (other === place ? { ...each, [target ?? '']: label } : each)));
    this.move(1);
  }

  private move(step: number): void {
    this.place = Math.min(this.data.length - 1, Math.max(0, this.place + step));
  }
}
