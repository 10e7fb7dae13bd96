import { html, nothing, type TemplateResult } from 'lit';
import { customElement, property, state } from 'lit/decorators.js';
import { FieldElement } from '../field-frame/field-element';
import { parseExamples } from '../examples-editor/parse';
import { cellText, columnsOf, isRow, type Row } from '../output-value/shapes';
import { typedValue } from './typed-value';
import '../examples-editor/examples-table';

const MOST_CARDS = 3; // more rows are a table

/** Rows of named values: a few as forms of their fields, many as a table; CSV and JSON can be pasted. */
@customElement('rows-field')
export class RowsField extends FieldElement {
  /** Names of fields that a row may have, known from elsewhere. */
  @property({ attribute: false }) known: string[] = [];
  @state() private unread: string[] = [];

  override render(): TemplateResult {
    const { rows } = this;
    return this.frame(
      html`
        ${rows.length > MOST_CARDS ? this.table() : rows.map((each, place) => this.card(each, place))}
        ${rows.length === 0 ? this.paste() : nothing}
        <div class="row">
          <button type="button" class="small" ?disabled=${this.columns.length === 0} @click=${this.add}>Add a row</button>
          ${rows.length > 0 ? html`<button type="button" class="small" @click=${() => this.write([])}>Remove all</button>` : nothing}
        </div>
        ${this.unread.map((each) => html`<p class="problem">${each}</p>`)}
      `,
      { isGroup: true },
    );
  }

  private get rows(): Row[] {
    return Array.isArray(this.value) ? this.value.filter(isRow) : [];
  }

  private get columns(): string[] {
    const found = columnsOf(this.rows);
    return found.length > 0 ? found : this.known;
  }

  private card(row: Row, place: number): TemplateResult {
    const name = `${this.field.label} ${place + 1}`;
    return html`<div class="row-card" role="group" aria-label=${name}>
      ${this.columns.map(
        (column) => html`<label class="row-cell"><span>${column}</span>
          <input .value=${cellText(row[column])} aria-label="${column} of ${name}"
            @input=${(event: Event) => this.type(place, column, (event.target as HTMLInputElement).value)} /></label>`,
      )}
      <button type="button" class="small" aria-label="Remove ${name}"
        @click=${() => this.write(this.rows.filter((_, other) => other !== place))}>×</button>
    </div>`;
  }

  private table(): TemplateResult {
    return html`<examples-table .about=${this.inputId} .label=${this.field.label} .data=${this.rows} .columns=${this.columns}
      @rows-change=${(event: CustomEvent<Row[]>) => this.write(event.detail)}></examples-table>`;
  }

  private paste(): TemplateResult {
    return html`<textarea id=${this.inputId} class="code" rows="3" aria-label="Paste rows"
      aria-describedby=${this.describedBy} aria-invalid=${this.isInvalid}
      placeholder=${`Paste CSV whose first line has the names, or JSON${this.known.length > 0 ? `, such as\n${this.known.join(',')}` : ''}`}
      @change=${(event: Event) => this.take((event.target as HTMLTextAreaElement).value)}
      @paste=${this.pasted}></textarea>`;
  }

  private pasted(event: ClipboardEvent): void {
    event.preventDefault();
    this.take(event.clipboardData?.getData('text') ?? '');
  }

  private take(text: string): void {
    const { rows, problems } = parseExamples(text);
    this.unread = rows.length > 0 || problems.length > 0 || text.trim() === '' ? problems : ['No rows were found.'];
    const numbered = rows.map((row) => Object.fromEntries(Object.entries(row).map(([name, each]) => [name, typedValue(each)])));
    if (numbered.length > 0) this.write([...this.rows, ...numbered]);
  }

  private add(): void {
    this.write([...this.rows, Object.fromEntries(this.columns.map((each) => [each, this.rows.at(-1)?.[each] ?? '']))]);
  }

  private type(place: number, column: string, text: string): void {
    this.write(this.rows.map((row, other) => (other === place ? { ...row, [column]: typedValue(text) } : row)));
  }

  private write(rows: Row[]): void {
    this.change(rows.length > 0 || this.field.isRequired ? rows : undefined);
  }
}
