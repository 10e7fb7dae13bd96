import { html, nothing, type PropertyValues, type TemplateResult } from 'lit';
import { customElement, property, state } from 'lit/decorators.js';
import type { Json } from '../api/types';
import { FieldElement } from '../field-frame/field-element';
import { cellText, isRow, type Row } from '../output-value/shapes';
import { balanceOf, expectedOf, mediumOf, missingOf, orderedColumns, renamed, targetOf, type Expected } from './columns';
import { captionedRows, isRows, rowsOfFiles, rowsOfText, type Intake } from './intake';
import { parseExamples } from './parse';
import { emptyCells } from './problems';
import { suspectsOf, type Suspect } from './suspects';
import './column-mapping';
import './examples-grid';
import './examples-table';
import './label-balance';
import './row-labeller';
import './row-marks';

/** Examples to learn from: pasted, dropped or typed, as a table of texts or a grid of pictures and sounds. */
@customElement('examples-editor')
export class ExamplesEditor extends FieldElement {
  /** What the model said about rows, by their place. */
  @property({ attribute: false }) rowProblems = new Map<number, string>();
  /** What the last report warned of. */
  @property({ attribute: false }) warnings: Json | undefined;
  @state() private rows: Row[] = [];
  @state() private unread: string[] = [];
  @state() private isOver = false;
  @state() private isLabelling = false;
  /** The label that a click on a picture gives it. */
  @state() private brush = '';
  private written: Json | undefined;

  override willUpdate(changed: PropertyValues<this>): void {
    if (!changed.has('value') || this.value === this.written) return;
    const { value } = this;
    if (Array.isArray(value)) this.rows = value.filter(isRow);
    else this.rows = typeof value === 'string' ? parseExamples(value).rows : [];
    this.unread = [];
    this.rowProblems = new Map();
  }

  override render(): TemplateResult {
    return this.frame(
      html`
        <div class="drop examples-drop ${this.isOver ? 'over' : ''}" @dragover=${this.drag}
          @dragleave=${() => (this.isOver = false)} @drop=${this.drop}>
          ${this.rows.length > 0 ? this.filled() : this.empty()}
          <div class="row">
            <button type="button" class="small" @click=${this.add}>Add a row</button>
            <span class="button small file-button">
              From files
              <input type="file" multiple aria-label="Examples from files" @change=${this.choose} />
            </span>
            ${this.rows.length > 0 ? this.moreButtons() : nothing}
            <span class="quiet" role="status">${this.count}</span>
          </div>
          ${this.unread.map((each) => html`<p class="problem">${each}</p>`)}
        </div>
      `,
      { isGroup: true },
    );
  }

  private empty(): TemplateResult {
    const { input, target } = this.expected;
    const such = input === null ? `the names of the columns, and ${target}` : `${input},${target}`;
    return html`
      <textarea
        id=${this.inputId}
        class="code"
        rows="3"
        aria-label="Paste examples"
        aria-describedby=${this.describedBy}
        aria-invalid=${this.isInvalid}
        placeholder=${`Paste or drop CSV, JSON or JSON Lines, or drop pictures or sounds.\nThe first line of CSV: ${such}`}
        @change=${(event: Event) => this.take((event.target as HTMLTextAreaElement).value)}
        @paste=${this.paste}
      ></textarea>
    `;
  }

  private filled(): TemplateResult {
    const { columns, rows } = this;
    const missing = missingOf(columns, this.expected);
    const balance = this.balance;
    const medium = mediumOf(rows);
    return html`
      ${missing.length > 0
        ? html`<column-mapping .data=${rows} .columns=${columns} .missing=${missing} @columns-mapped=${this.map}></column-mapping>`
        : nothing}
      ${this.isLabelling
        ? html`<row-labeller .data=${rows} .target=${this.target} .labels=${this.labels} @rows-change=${this.edited}
            @labelled=${() => (this.isLabelling = false)}></row-labeller>`
        : medium
          ? html`<examples-grid .data=${rows} .column=${medium.column} .target=${this.target} .labels=${this.labels} .brush=${this.brush}
              .marked=${this.marked} .suspects=${this.suspects} @rows-change=${this.edited} @put-right=${this.putRight}></examples-grid>`
          : this.table()}
      <row-marks .problems=${this.problems} .suspects=${this.suspects} @row-show=${this.show} @put-right=${this.putRight}></row-marks>
      ${balance && balance.length > 0
        ? html`<label-balance .counts=${balance} .brush=${this.brush} .picks=${medium?.medium === 'image'}
            @brush-change=${(event: CustomEvent<string>) => (this.brush = event.detail)}></label-balance>`
        : nothing}
    `;
  }

  private table(): TemplateResult {
    return html`<examples-table .about=${this.inputId} .label=${this.field.label} .data=${this.rows} .columns=${this.columns}
      .target=${this.target ?? ''} .labels=${this.labels} .marked=${this.marked} .suspects=${this.suspects} renames
      @rows-change=${this.edited} @put-right=${this.putRight}
      @column-rename=${(event: CustomEvent<[string, string]>) => this.write(renamed(this.rows, new Map([event.detail])))}>
    </examples-table>`;
  }

  private get problems(): Map<number, string> {
    return new Map([...emptyCells(this.rows, this.columns), ...this.rowProblems]);
  }

  /** The rows whose labels the last report calls into question. */
  get suspects(): Suspect[] {
    return suspectsOf(this.warnings, this.rows, this.target);
  }

  /** Bring the first of them into sight, with the focus on what puts it right. */
  showSuspect(): void {
    this.showRow(this.suspects[0]?.place ?? 0);
    requestAnimationFrame(() => {
      const button = this.querySelector<HTMLElement>('.put-right');
      button?.scrollIntoView({ block: 'center' });
      button?.focus({ preventScroll: true });
    });
  }

  private get marked(): Map<number, string> {
    return new Map([...this.suspects.map(({ place, why }) => [place, why] as const), ...this.problems]);
  }

  private moreButtons(): TemplateResult {
    return html`
      ${this.target !== null && this.balance !== null
        ? html`<button type="button" class="small" aria-pressed=${this.isLabelling}
            @click=${() => (this.isLabelling = !this.isLabelling)}>Label by keyboard</button>`
        : nothing}
      <button type="button" class="small" @click=${() => this.write([])}>Remove all</button>`;
  }

  private get expected(): Expected {
    return expectedOf(this.field.description);
  }

  private get columns(): string[] {
    return orderedColumns(this.rows, this.expected);
  }

  private get target(): string | null {
    return targetOf(this.columns, this.expected);
  }

  private get balance(): [string, number][] | null {
    return balanceOf(this.rows, this.target);
  }

  private get labels(): string[] {
    return (this.balance ?? []).map(([name]) => name);
  }

  private get count(): string {
    const { length } = this.rows;
    if (length === 0) return '';
    const rows = `${length.toLocaleString('en')} ${length === 1 ? 'example' : 'examples'}`;
    const classes = this.balance?.length;
    return classes ? `${rows}, ${classes} ${classes === 1 ? 'label' : 'labels'}` : rows;
  }

  private paste(event: ClipboardEvent): void {
    const text = event.clipboardData?.getData('text') ?? '';
    if (!isRows(text)) return;
    event.preventDefault();
    this.take(text);
  }

  private drag(event: DragEvent): void {
    event.preventDefault();
    this.isOver = true;
  }

  private drop(event: DragEvent): void {
    event.preventDefault();
    this.isOver = false;
    const text = event.dataTransfer?.getData('text');
    if (text) this.take(text);
    else void this.readFiles(event.dataTransfer?.files ?? null);
  }

  private async choose(event: Event): Promise<void> {
    const chosen = event.target as HTMLInputElement;
    await this.readFiles(chosen.files);
    chosen.value = ''; // the same file may be chosen again
  }

  private async readFiles(files: FileList | null): Promise<void> {
    const target = this.target ?? this.expected.target;
    const isCaption = this.expected.target === 'caption';
    const others = isCaption ? null : { [target]: this.brush };
    this.keep(others ? await rowsOfFiles(files ?? [], this.mediaColumn, others) : await captionedRows(files ?? [], this.mediaColumn, target));
  }

  private get mediaColumn(): string {
    return mediumOf(this.rows)?.column ?? this.expected.input ?? 'input';
  }

  private take(text: string): void {
    this.keep(rowsOfText(text));
  }

  private keep({ rows, problems }: Intake): void {
    this.unread = problems;
    if (rows.length > 0) this.write([...this.rows, ...rows]);
  }

  private map({ detail }: CustomEvent<Map<string, string>>): void {
    this.write(renamed(this.rows, detail, this.expected.input !== null));
  }

  private show({ detail }: CustomEvent<number>): void {
    this.showRow(detail);
  }

  private showRow(place: number): void {
    this.querySelector<HTMLElement & { showRow(place: number): void }>('examples-table, examples-grid')?.showRow(place);
  }

  private putRight({ detail }: CustomEvent<Suspect[]>): void {
    const { target } = this;
    if (target === null) return;
    const labels = new Map(detail.map(({ place, label }) => [place, label]));
    this.write(this.rows.map((row, place) => (labels.has(place) ? { ...row, [target]: labels.get(place) ?? '' } : row)));
    this.tell('teach-again');
  }

  private add(): void {
    this.write([...this.rows, Object.fromEntries(this.columns.map((each) => [each, '']))]);
  }

  private readonly edited = ({ detail }: CustomEvent<Row[]>): void => {
    this.write(detail);
  };

  private write(rows: Row[]): void {
    const target = this.target ?? '';
    const isSameRow = (place: number): boolean => JSON.stringify(rows[place]) === JSON.stringify(this.rows[place]);
    const kept = rows.length === this.rows.length ? [...this.rowProblems].filter(([place]) => isSameRow(place)) : [];
    this.rowProblems = new Map(kept); // what was said of a row that is edited may no longer be so
    if (!rows.some((each) => cellText(each[target]) === this.brush)) this.brush = '';
    this.rows = rows;
    this.written = rows;
    this.change(rows.length > 0 ? rows : undefined);
  }
}
