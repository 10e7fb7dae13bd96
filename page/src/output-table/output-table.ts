import { html, type TemplateResult } from 'lit';
import { customElement, property } from 'lit/decorators.js';
import { cellText, columnsOf, type Row } from '../output-value/shapes';
import { ScrolledRows } from './scrolled-rows';

/** Objects as rows of a table. */
@customElement('output-table')
export class OutputTable extends ScrolledRows {
  @property({ attribute: false }) data: Row[] = [];
  private columns: string[] = [];

  override willUpdate(): void {
    this.columns = columnsOf(this.data);
  }

  override render(): TemplateResult {
    return this.rows();
  }

  protected override get count(): number {
    return this.data.length;
  }

  protected override head(): TemplateResult {
    return html`<span class="cell place" role="columnheader">#</span>
      ${this.columns.map((each) => html`<span class="cell" role="columnheader">${each}</span>`)}`;
  }

  protected override row(place: number): TemplateResult {
    const row = this.data[place] ?? {};
    return html`<span class="cell place" role="cell">${place + 1}</span>
      ${this.columns.map((each) => {
        const text = cellText(row[each]);
        return html`<span class="cell" role="cell" title=${text.slice(0, 500)}>${text.slice(0, 300)}</span>`;
      })}`;
  }
}
