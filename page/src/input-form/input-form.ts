import { html, nothing, type TemplateResult } from 'lit';
import { customElement, property } from 'lit/decorators.js';
import type { Values } from '../api/types';
import { targetOf } from '../examples-editor/columns';
import type { ValueChange } from '../field-frame/field-element';
import type { Field } from '../inputs/fields';
import { sectionsOf, type Sections } from '../inputs/sections';
import { LightElement } from '../light/light-element';
import { columnsOf, isRow } from '../output-value/shapes';
import { editorFor } from './editors';

/** The form of all inputs: what is asked, what is taught, and the settings, which are folded. */
@customElement('input-form')
export class InputForm extends LightElement {
  @property({ attribute: false }) fields: Field[] = [];
  @property({ attribute: false }) values: Values = {};
  /** What is wrong with an input, by its name. */
  @property({ attribute: false }) problems: Record<string, string> = {};

  override render(): TemplateResult {
    const { ask, teach, sources, settings } = this.sections;
    return html`
      ${ask.length > 0
        ? html`<section class="part" aria-label="Ask"><h2>What do you want to ask?</h2>${this.editors(ask)}</section>`
        : nothing}
      ${teach.length > 0
        ? html`<section class="part" aria-label="Teach">
            <h2>Teach it ${ask.length > 0 ? html`<span class="quiet">optional</span>` : nothing}</h2>
            ${this.editors(teach)} ${this.folded(sources, 'sources', 'A file, or what it learned earlier')}
          </section>`
        : nothing}
      ${this.folded(settings, 'settings', `${settings.length} settings, with defaults`)}
    `;
  }

  private get sections(): Sections {
    return sectionsOf(this.fields);
  }

  private editors(fields: Field[]): TemplateResult[] {
    const known = this.knownColumns;
    return fields.map((each) => editorFor(each, this.values[each.name], this.problems[each.name] ?? '', known));
  }

  /** The fields of a row, as the examples have them. */
  private get knownColumns(): string[] {
    const { examples } = this.values;
    if (!Array.isArray(examples)) return [];
    const columns = columnsOf(examples.filter(isRow).slice(0, 1));
    return columns.filter((each) => each !== targetOf(columns));
  }

  private folded(fields: Field[], name: string, words: string): TemplateResult | typeof nothing {
    if (fields.length === 0) return nothing;
    return html`<details class="folded ${name}">
      <summary>${words}</summary>
      ${this.editors(fields)}
    </details>`;
  }

  /** Open what is folded where an input in it is wrong; who has opened it closes it. */
  override updated(): void {
    const { sources, settings } = this.sections;
    for (const [name, fields] of Object.entries({ sources, settings })) {
      const folded = this.querySelector<HTMLDetailsElement>(`details.${name}`);
      const isUsed = name === 'sources' && fields.some((each) => this.values[each.name]);
      if (folded && (isUsed || fields.some((each) => this.problems[each.name]))) folded.open = true;
    }
  }

  /** Put the focus on the first input with a problem. */
  async focusProblem(): Promise<void> {
    await this.updateComplete;
    requestAnimationFrame(() => {
      const wrong = this.querySelector<HTMLElement>('[aria-invalid=true], [data-invalid=true]');
      wrong?.closest('details')?.setAttribute('open', '');
      wrong?.focus();
    });
  }
}

export type { ValueChange };
