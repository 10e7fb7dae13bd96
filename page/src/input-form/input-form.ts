import { html, nothing, type TemplateResult } from 'lit';
import { customElement, property } from 'lit/decorators.js';
import type { Values } from '../api/types';
import type { ValueChange } from '../field-frame/field-element';
import type { Field } from '../inputs/fields';
import { LightElement } from '../light/light-element';
import { editorFor } from './editors';

const MANY = 8;

/** The form of all inputs; of many, those that rarely change are folded away. */
@customElement('input-form')
export class InputForm extends LightElement {
  @property({ attribute: false }) fields: Field[] = [];
  @property({ attribute: false }) values: Values = {};
  /** What is wrong with an input, by its name. */
  @property({ attribute: false }) problems: Record<string, string> = {};

  override render(): TemplateResult {
    const { folded } = this;
    const shown = this.fields.filter((each) => !folded.includes(each));
    return html`
      ${shown.map((each) => this.editor(each))}
      ${folded.length > 0 ? this.settings(folded) : nothing}
    `;
  }

  private get folded(): Field[] {
    return this.fields.length > MANY ? this.fields.filter(isSetting) : [];
  }

  private settings(fields: Field[]): TemplateResult {
    return html`
      <details class="settings">
        <summary>${fields.length} settings, with defaults</summary>
        ${fields.map((each) => this.editor(each))}
      </details>
    `;
  }

  private editor(field: Field): TemplateResult {
    return editorFor(field, this.values[field.name], this.problems[field.name] ?? '');
  }

  /** Open the settings where one of them is wrong; who has opened them closes them. */
  override updated(): void {
    const settings = this.querySelector<HTMLDetailsElement>('details.settings');
    if (settings && this.folded.some((each) => this.problems[each.name])) settings.open = true;
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

function isSetting(field: Field): boolean {
  const isSmall = field.editor === 'number' || field.editor === 'bool' || field.editor === 'choice';
  return field.isDeprecated || (isSmall && !field.isRequired);
}

export type { ValueChange };
