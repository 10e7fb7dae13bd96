import { html, nothing, type TemplateResult } from 'lit';
import { customElement, property, state } from 'lit/decorators.js';
import { shownName } from '../adapters-list/adapter-words';
import type { Adapter, Json, Values } from '../api/types';
import { answersOf, percent, short, type Answer } from '../gist/answered';
import { plainError } from '../runs/messages';
import { askedOf, type Known } from '../gist/asked';
import { item } from '../gist/gist';
import { LightElement } from '../light/light-element';
import { styles } from '../light/styles';
import { mediaValue } from '../output-value/media';
import { outcome } from '../runs/run';
import { comparedInputs, differenceWords, differing, gainOf, typedOf } from './requests';
import './adapter-compare.css';

interface Column {
  name: string;
  answers: Answer[];
  problem: string;
}

const MOST_ROWS = 200;

/** What the base, and one adapter or two, answer to the same inputs. */
@customElement('adapter-compare')
export class AdapterCompare extends LightElement {
  @property({ attribute: false }) adapters: Adapter[] = [];
  @property({ attribute: false }) inputs: Values = {};
  @property({ attribute: false }) fields: Known[] = [];
  @state() private typed: string | null = null;
  @state() private columns: Column[] = [];
  @state() private asked: Json[] = [];
  @state() private isAsking = false;

  override render(): TemplateResult {
    const names = ['the base', ...this.adapters.map(shownName)];
    return html`<section class="compare" aria-labelledby="compare-title">
      <h3 id="compare-title">Compare ${names.slice(0, -1).join(', ')} and ${names.at(-1)}</h3>
      ${this.takesTexts ? this.texts() : this.ofTheForm()}
      <div class="row">
        <button type="button" class="primary" ?disabled=${this.isAsking} @click=${this.ask}>Compare</button>
        <span role="status" class="quiet">${this.isAsking ? 'Asking' : ''}</span>
      </div>
      ${this.columns.map((each) => (each.problem ? html`<p class="problem" role="alert">${each.name}: ${each.problem}</p>` : nothing))}
      ${this.columns.some((each) => each.answers.length > 0) ? this.table() : nothing}
    </section>`;
  }

  private texts(): TemplateResult {
    return html`<label class="label" for="compared">Inputs, one a line</label>
      <textarea id="compared" rows="4" .value=${this.lines}
        @input=${(event: Event) => (this.typed = (event.target as HTMLTextAreaElement).value)}></textarea>`;
  }

  private ofTheForm(): TemplateResult {
    const count = this.formItems.length;
    return html`<p class="quiet">${count === 0 ? html`Fill in the form of <a href="#/predict">Predict</a> first: its inputs are asked.` : `${count === 1 ? 'The input of the form is' : `The ${count} inputs of the form are`} asked.`}</p>`;
  }

  /** Whether lines of text can be asked; where nothing is known of the predictor, they can. */
  private get takesTexts(): boolean {
    return this.fields.length === 0 || this.fields.some((each) => each.name === 'texts');
  }

  private get formItems(): Json[] {
    return askedOf(this.inputs, this.fields).items;
  }

  private get lines(): string {
    return this.typed ?? typedOf(this.inputs);
  }

  private async ask(): Promise<void> {
    this.isAsking = true;
    const lines = this.takesTexts ? this.lines.split('\n').map((each) => each.trim()).filter(Boolean) : [];
    const labels = this.adapters[0]?.labels ?? [];
    const asked = [null, ...this.adapters].map((each) => this.column(each, labels));
    this.columns = await Promise.all(asked);
    this.asked = lines.length > 0 ? lines : this.formItems;
    this.isAsking = false;
  }

  private async column(adapter: Adapter | null, labels: string[]): Promise<Column> {
    const name = adapter ? shownName(adapter) : 'the base';
    const names = this.fields.length > 0 ? this.fields.map((each) => each.name) : null;
    try {
      const typed = this.takesTexts ? this.lines : '';
      const output = await outcome('predictions', comparedInputs(this.inputs, typed, adapter, labels, names));
      return { name, answers: answersOf(output), problem: '' };
    } catch (error) {
      return { name, answers: [], problem: plainError((error as Error).message) };
    }
  }

  private table(): TemplateResult {
    const count = Math.min(MOST_ROWS, Math.max(...this.columns.map((each) => each.answers.length)));
    const rows = Array.from({ length: count }, (_, place) => this.columns.map((each) => each.answers[place] ?? null));
    return html`<p class="glance" role="status">${differenceWords(rows)}</p>
      <div class="scroll" tabindex="0" role="region" aria-label="Comparison">
      <table ${styles({ '--columns': String(this.columns.length) })}>
        <thead><tr><th scope="col">input</th>${this.columns.map((each) => html`<th scope="col">${each.name}</th>`)}</tr></thead>
        <tbody>${rows.map((row, place) => this.row(row, place))}</tbody>
      </table>
    </div>`;
  }

  private row(row: (Answer | null)[], place: number): TemplateResult {
    const marks = differing(row);
    const input = this.asked[place];
    return html`<tr>
      <th scope="row" class="input">${input === undefined ? `input ${place + 1}` : item(input)}</th>
      ${row.map((each, column) => html`<td class=${marks[column] ? 'differs' : ''}>${each === null ? html`<span class="quiet">–</span>` : said(each, marks[column] ?? false, column === 0 ? null : row[0])}</td>`)}
    </tr>`;
  }
}

/** Render an answer; its score with what it has gained on the base's, where both say the same. */
function said({ value, score }: Answer, differs: boolean, base: Answer | null | undefined): TemplateResult {
  const medium = typeof value === 'string' ? mediaValue(value, 'answer') : null;
  if (medium !== null) return html`${medium}${differs ? html`<span class="visually-hidden">(differs)</span>` : nothing}`;
  const words = short(value).slice(0, 200);
  const gain = differs ? '' : gainOf(score, base?.score ?? null);
  return html`${differs ? html`<strong>${words}</strong> <span class="visually-hidden">(differs)</span>` : words}
    ${score === null ? nothing : html`<span class="quiet">${percent(score)}</span>`}
    ${gain ? html`<span class="gain">${gain}</span>` : nothing}`;
}
