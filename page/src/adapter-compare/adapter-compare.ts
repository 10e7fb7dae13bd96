import { html, nothing, type TemplateResult } from 'lit';
import { customElement, property, state } from 'lit/decorators.js';
import { answerRows } from '../adaptation-panel/answers';
import { shownName } from '../adapters-list/adapters-list';
import type { Adapter, Json, Values } from '../api/types';
import { LightElement } from '../light/light-element';
import { outcome } from '../runs/run';
import { comparedInputs, typedOf } from './requests';

interface Column {
  name: string;
  answers: Json[] | null;
  problem: string;
}

/** What two adapters, or one and the base, answer to the same inputs. */
@customElement('adapter-compare')
export class AdapterCompare extends LightElement {
  @property({ attribute: false }) adapters: Adapter[] = [];
  @property({ attribute: false }) inputs: Values = {};
  @state() private typed: string | null = null;
  @state() private columns: Column[] = [];
  @state() private isAsking = false;

  override render(): TemplateResult {
    return html`<section aria-labelledby="compare-title">
      <h3 id="compare-title">Compare ${this.asked.map((each) => (each ? shownName(each) : 'the base')).join(' and ')}</h3>
      <label class="label" for="compared">Inputs, one a line</label>
      <textarea id="compared" rows="4" .value=${this.lines}
        @input=${(event: Event) => (this.typed = (event.target as HTMLTextAreaElement).value)}></textarea>
      <div class="row">
        <button type="button" class="primary" ?disabled=${this.isAsking} @click=${this.ask}>Compare</button>
        <span role="status" class="quiet">${this.isAsking ? 'Asking' : ''}</span>
      </div>
      ${this.columns.map((each) => (each.problem ? html`<p class="problem" role="alert">${each.name}: ${each.problem}</p>` : nothing))}
      ${this.columns.length > 0 ? this.table() : nothing}
    </section>`;
  }

  private get lines(): string {
    return this.typed ?? typedOf(this.inputs);
  }

  /** Whom to ask: one adapter is compared with the base. */
  private get asked(): (Adapter | null)[] {
    const [first, second] = this.adapters;
    return [second ? (first ?? null) : null, second ?? first ?? null];
  }

  private async ask(): Promise<void> {
    this.isAsking = true;
    const labels = this.adapters[0]?.labels ?? [];
    const asked = this.asked.map((each) => this.column(each, labels));
    this.columns = await Promise.all(asked);
    this.isAsking = false;
  }

  private async column(adapter: Adapter | null, labels: string[]): Promise<Column> {
    const name = adapter ? shownName(adapter) : 'the base';
    try {
      const output = await outcome('predictions', comparedInputs(this.inputs, this.lines, adapter, labels));
      return { name, answers: answersOf(output), problem: '' };
    } catch (error) {
      return { name, answers: null, problem: (error as Error).message };
    }
  }

  private table(): TemplateResult {
    const texts = this.lines.split('\n').map((each) => each.trim()).filter(Boolean);
    const rows = answerRows({ texts }, this.columns.map((each) => each.answers));
    return html`<div class="scroll" tabindex="0" role="region" aria-label="Comparison">
      <table>
        <thead><tr><th scope="col">input</th>${this.columns.map((each) => html`<th scope="col">${each.name}</th>`)}</tr></thead>
        <tbody>
          ${rows.map((row) => {
            const differs = row.answers[0]?.label !== row.answers[1]?.label;
            return html`<tr>
              <th scope="row" class="input">${row.input.slice(0, 300)}</th>
              ${row.answers.map(
                (each) => html`<td><span class=${differs ? 'changed' : ''}>${each?.label.slice(0, 200) ?? '–'}</span>
                  ${each?.score === null || each?.score === undefined ? nothing : html`<span class="quiet">${(each.score * 100).toFixed(0)}%</span>`}</td>`,
              )}
            </tr>`;
          })}
        </tbody>
      </table>
    </div>`;
  }
}

/** Return the answers of an output; one that is no list is one answer. */
function answersOf(output: Json): Json[] {
  if (Array.isArray(output)) return output;
  const answers = output && typeof output === 'object' ? output.predictions : undefined;
  return Array.isArray(answers) ? answers : [output];
}
