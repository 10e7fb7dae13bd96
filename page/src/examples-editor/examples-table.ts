import { html, nothing, type TemplateResult } from 'lit';
import { customElement, property } from 'lit/decorators.js';
import type { Json } from '../api/types';
import { ScrolledRows } from '../output-table/scrolled-rows';
import { cellText, type Row } from '../output-value/shapes';
import { putRight } from './row-marks';
import type { Suspect } from './suspects';

/** The rows of examples, each cell to be typed into; marked rows are explained below the table. */
@customElement('examples-table')
export class ExamplesTable extends ScrolledRows {
  /** Begins the ids of what is said of rows. */
  @property() about = '';
  @property({ attribute: false }) data: Row[] = [];
  @property({ attribute: false }) columns: string[] = [];
  @property() target = '';
  /** Labels to choose from where a label is typed. */
  @property({ attribute: false }) labels: string[] = [];
  /** Rows to look at, and why. */
  @property({ attribute: false }) marked = new Map<number, string>();
  /** Those whose labels may be wrong, each put right by a click. */
  @property({ attribute: false }) suspects: Suspect[] = [];
  @property({ type: Boolean }) renames = false;

  override render(): TemplateResult {
    return html`${this.rows()}
      <datalist id="${this.about}-labels">${this.labels.map((each) => html`<option value=${each}></option>`)}</datalist>`;
  }

  protected override get count(): number {
    return this.data.length;
  }

  protected override head(): TemplateResult {
    return html`<span class="cell place" role="columnheader">#</span>
      ${this.columns.map(
        (each) => html`<span class="cell ${this.width(each)}" role="columnheader">${this.renames
          ? html`<input .value=${each} aria-label="Name of the column ${each}" @change=${(event: Event) => this.rename(each, event)} />`
          : each}</span>`,
      )}
      <span class="cell place" role="columnheader"><span class="visually-hidden">remove</span></span>`;
  }

  protected override row(place: number): TemplateResult {
    const why = this.marked.get(place);
    const about = `${this.about}-row-${place}`;
    const suspect = this.suspects.find((each) => each.place === place); // of whose cells the label alone is in doubt
    return html`
      <span class="cell place ${why ? 'wrong' : ''}" role="cell">
        ${place + 1}${why ? html`<span class="visually-hidden" id=${about}>${why}</span>` : nothing}
      </span>
      ${this.columns.map((column) => this.cell(place, column, why && (column === this.target || !suspect) ? about : undefined, suspect))}
      <span class="cell place" role="cell">
        <button type="button" class="small" aria-label="Remove row ${place + 1}"
          @click=${() => this.tell('rows-change', this.data.filter((_, other) => other !== place))}>×</button>
      </span>
    `;
  }

  private cell(place: number, column: string, about: string | undefined, suspect?: Suspect): TemplateResult {
    const text = cellText(this.data[place]?.[column]);
    return html`<span class="cell ${this.width(column)}" role="cell">
      <input
        .value=${text}
        title=${text.length > 30 ? text.slice(0, 500) : nothing}
        list=${column === this.target ? `${this.about}-labels` : nothing}
        aria-label="${column} of row ${place + 1}"
        aria-invalid=${about ? 'true' : 'false'}
        aria-describedby=${about ?? nothing}
        @change=${(event: Event) => this.write(place, column, (event.target as HTMLInputElement).value)}
      />
      ${suspect && column === this.target ? putRight(suspect) : nothing}
    </span>`;
  }

  private width(column: string): string {
    const isTarget = column === this.target;
    const width = isTarget && this.labels.length > 0 ? 'target' : typeof this.data[0]?.[column] === 'number' ? 'number' : '';
    return isTarget ? `${width} is-target` : width; // labels are short; texts take what room there is
  }

  private rename(column: string, event: Event): void {
    const name = (event.target as HTMLInputElement).value.trim();
    if (name !== '' && !this.columns.includes(name)) this.tell('column-rename', [column, name]);
    else (event.target as HTMLInputElement).value = column;
  }

  private write(place: number, column: string, text: string): void {
    const before = this.data[place]?.[column];
    const rows = [...this.data];
    rows[place] = { ...rows[place], [column]: typeof before === 'string' ? text : readValue(text, before) };
    this.tell('rows-change', rows);
  }
}

/** Keep a value that was no text what it was, where that can be read. */
function readValue(text: string, before: Json | undefined): Json {
  if (before === undefined || before === null) return text;
  try {
    return JSON.parse(text) as Json;
  } catch {
    return text;
  }
}
