import { html, nothing, type PropertyValues, type TemplateResult } from 'lit';
import { customElement, property, state } from 'lit/decorators.js';
import type { Json } from '../api/types';
import { FieldElement } from '../field-frame/field-element';
import { isRow, type Row } from '../output-value/shapes';
import { parseExamples } from './parse';
import { emptyCells } from './problems';
import './examples-table';

const COLUMNS = ['text', 'label'];

/** Examples to learn from: pasted, dropped or typed, in a table that bears thousands of rows. */
@customElement('examples-editor')
export class ExamplesEditor extends FieldElement {
  /** What the model said about rows, by their place. */
  @property({ attribute: false }) rowProblems = new Map<number, string>();
  @state() private rows: Row[] = [];
  @state() private unread: string[] = [];
  @state() private isOver = false;
  private written: Json | undefined;

  override willUpdate(changed: PropertyValues<this>): void {
    if (!changed.has('value') || this.value === this.written) return;
    const { value } = this;
    if (Array.isArray(value)) this.rows = value.filter(isRow);
    else this.rows = typeof value === 'string' ? parseExamples(value).rows : [];
    this.unread = [];
  }

  override render(): TemplateResult {
    return this.frame(
      html`
        <div class="drop ${this.isOver ? 'over' : ''}" @dragover=${this.drag}
          @dragleave=${() => (this.isOver = false)} @drop=${this.drop}>
          ${this.rows.length > 0 ? this.table() : this.empty()}
          <div class="row">
            <button type="button" class="small" @click=${this.add}>Add a row</button>
            <label class="button small">
              From a file
              <input class="visually-hidden" type="file" accept=".csv,.tsv,.json,.jsonl,.txt"
                @change=${(event: Event) => this.readFile((event.target as HTMLInputElement).files)} />
            </label>
            ${this.rows.length > 0
              ? html`<button type="button" class="small" @click=${() => this.write([])}>Remove all</button>`
              : nothing}
            <span class="quiet" role="status">${this.count}</span>
          </div>
          ${this.unread.map((each) => html`<p class="problem">${each}</p>`)}
        </div>
      `,
      { isGroup: true },
    );
  }

  private empty(): TemplateResult {
    return html`
      <textarea
        id=${this.inputId}
        class="code"
        rows="3"
        aria-label="Paste examples"
        aria-describedby=${this.describedBy}
        aria-invalid=${this.isInvalid}
        placeholder=${'Paste or drop CSV, JSON or JSON Lines here, such as\ntext,label\nWhere is my parcel?,delivery'}
        @change=${(event: Event) => this.take((event.target as HTMLTextAreaElement).value)}
        @paste=${this.paste}
      ></textarea>
    `;
  }

  private table(): TemplateResult {
    const problems = new Map([...emptyCells(this.rows, this.columns), ...this.rowProblems]);
    return html`<examples-table .about=${this.inputId} .label=${this.field.label} .data=${this.rows} .columns=${this.columns}
      .problems=${problems} @rows-change=${(event: CustomEvent<Row[]>) => this.write(event.detail)}>
    </examples-table>`;
  }

  private get columns(): string[] {
    const first = this.rows[0] ?? {};
    const names = Object.keys(first);
    return names.length > 0 ? names : COLUMNS;
  }

  private get count(): string {
    if (this.rows.length === 0) return '';
    const target = this.columns.find((each) => /^(label|target)$/i.test(each));
    const rows = `${this.rows.length.toLocaleString('en')} ${this.rows.length === 1 ? 'example' : 'examples'}`;
    if (!target) return rows;
    return `${rows}, ${new Set(this.rows.map((each) => each[target])).size} different values of ${target}`;
  }

  private paste(event: ClipboardEvent): void {
    const text = event.clipboardData?.getData('text') ?? '';
    if (!text.includes('\n') && !/^\s*[[{]/.test(text)) return;
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
    else void this.readFile(event.dataTransfer?.files ?? null);
  }

  private async readFile(files: FileList | null): Promise<void> {
    const file = files?.[0];
    if (file) this.take(await file.text());
  }

  private take(text: string): void {
    const { rows, problems } = parseExamples(text);
    this.unread = rows.length > 0 || problems.length > 0 || text.trim() === '' ? problems : ['No rows were found.'];
    if (rows.length > 0) this.write([...this.rows, ...rows]);
  }

  private add(): void {
    this.write([...this.rows, Object.fromEntries(this.columns.map((each) => [each, '']))]);
  }

  private write(rows: Row[]): void {
    this.rows = rows;
    this.written = rows;
    this.change(rows.length > 0 ? rows : undefined);
  }
}
