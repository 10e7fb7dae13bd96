import { html, type TemplateResult } from 'lit';
import { customElement, property, state } from 'lit/decorators.js';
import { LightElement } from '../light/light-element';
import type { Row } from '../output-value/shapes';
import { guessOf } from './columns';

const READ = ['text', 'input', 'sentence', 'prompt', 'image', 'label', 'target', 'completion', 'caption'];

/** Asks which columns of a foreign file are those that the model reads. */
@customElement('column-mapping')
export class ColumnMapping extends LightElement {
  @property({ attribute: false }) data: Row[] = [];
  @property({ attribute: false }) columns: string[] = [];
  /** Names that no column has. */
  @property({ attribute: false }) missing: string[] = [];
  @state() private chosen: Record<string, string> = {};

  override render(): TemplateResult {
    return html`<div class="row mapping" role="group" aria-label="Columns">
      <strong>Which column is which?</strong>
      ${this.missing.map(
        (name) => html`<label>${name} <select @change=${(event: Event) => this.choose(name, event)}>
          ${this.columns.map((each) => html`<option value=${each} .selected=${each === this.columnOf(name)}>${each}</option>`)}
        </select></label>`,
      )}
      <button type="button" class="small primary" @click=${this.use}>Use these columns</button>
    </div>`;
  }

  private columnOf(name: string): string {
    const others = this.missing.filter((each) => each !== name).map((each) => this.chosen[each]);
    return this.chosen[name] ?? guessOf(name, this.data, this.columns.filter((each) => !others.includes(each)));
  }

  private choose(name: string, event: Event): void {
    this.chosen = { ...this.chosen, [name]: (event.target as HTMLSelectElement).value };
  }

  private use(): void {
    const kept = this.columns.filter((each) => READ.includes(each.toLowerCase()));
    const names = new Map(kept.map((each) => [each, each]));
    for (const name of this.missing) names.set(this.columnOf(name), name);
    this.tell('columns-mapped', names);
  }
}
