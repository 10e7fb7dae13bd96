import { html, nothing, type TemplateResult } from 'lit';
import { customElement, property } from 'lit/decorators.js';
import type { Json } from '../api/types';
import { ScrolledRows } from '../output-table/scrolled-rows';
import { cellText, type Row } from '../output-value/shapes';

const MOST_SHOWN = 5;

/** The rows of examples, each cell to be typed into; a row's problem stands in the row. */
@customElement('examples-table')
export class ExamplesTable extends ScrolledRows {
  /** Begins the ids of what is said of rows. */
  @property() about = '';
  @property({ attribute: false }) data: Row[] = [];
  @property({ attribute: false }) columns: string[] = [];
  @property({ attribute: false }) problems = new Map<number, string>();

  override render(): TemplateResult {
    const places = [...this.problems.keys()].sort((one, other) => one - other);
    return html`${this.rows()}
      ${places.length > 0
        ? html`<p class="problem" role="status">
            ${places.length} ${places.length === 1 ? 'row has' : 'rows have'} a problem:
            ${places.slice(0, MOST_SHOWN).map(
              (place) => html`<button type="button" class="link" @click=${() => this.showRow(place)}>row ${place + 1}</button> `,
            )}
          </p>`
        : nothing}`;
  }

  protected override get count(): number {
    return this.data.length;
  }

  protected override head(): TemplateResult {
    return html`<span class="cell place" role="columnheader">#</span>
      ${this.columns.map((each) => html`<span class="cell" role="columnheader">${each}</span>`)}
      <span class="cell place" role="columnheader"><span class="visually-hidden">remove</span></span>`;
  }

  protected override row(place: number): TemplateResult {
    const problem = this.problems.get(place);
    const about = `${this.about}-row-${place}`;
    return html`
      <span class="cell place ${problem ? 'wrong' : ''}" role="cell" title=${problem ?? ''}>
        ${place + 1}${problem ? html`<span class="visually-hidden" id=${about}>${problem}</span>` : nothing}
      </span>
      ${this.columns.map((column) => this.cell(place, column, problem ? about : undefined))}
      <span class="cell place" role="cell">
        <button type="button" class="small" aria-label="Remove row ${place + 1}"
          @click=${() => this.tell('rows-change', this.data.filter((_, other) => other !== place))}>×</button>
      </span>
      ${problem ? html`<span class="cell said" role="cell">${problem}</span>` : nothing}
    `;
  }

  private cell(place: number, column: string, about: string | undefined): TemplateResult {
    return html`<span class="cell" role="cell">
      <input
        .value=${cellText(this.data[place]?.[column])}
        aria-label="${column} of row ${place + 1}"
        aria-invalid=${about ? 'true' : 'false'}
        aria-describedby=${about ?? nothing}
        @change=${(event: Event) => this.write(place, column, (event.target as HTMLInputElement).value)}
      />
    </span>`;
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
