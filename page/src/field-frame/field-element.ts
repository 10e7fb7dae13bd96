/** What all editors of an input have: its field, its value, its problem, and how they tell a change. */
import { html, nothing, type TemplateResult } from 'lit';
import { property } from 'lit/decorators.js';
import type { Json } from '../api/types';
import type { Field } from '../inputs/fields';
import { LightElement } from '../light/light-element';

/** A new value; undefined: the input is left out. */
export interface ValueChange {
  name: string;
  value: Json | undefined;
  /** Why what is typed is no value; the value then stays as it was. */
  problem?: string;
}

export abstract class FieldElement extends LightElement {
  @property({ attribute: false }) field!: Field;
  @property({ attribute: false }) value: Json | undefined;
  @property() problem = '';

  protected get inputId(): string {
    return this.field.id;
  }

  /** Ids of what describes the input, for a screen reader. */
  protected get describedBy(): string | typeof nothing {
    const ids = [];
    if (this.field.description || this.field.isDeprecated) ids.push(`${this.inputId}-about`);
    if (this.problem) ids.push(`${this.inputId}-problem`);
    return ids.join(' ') || nothing;
  }

  protected get isInvalid(): 'true' | 'false' {
    return this.problem ? 'true' : 'false';
  }

  protected change(value: Json | undefined, problem?: string): void {
    const detail: ValueChange = { name: this.field.name, value, problem };
    this.tell('value-change', detail);
  }

  /** Render label, editor, description and problem, in this order. */
  protected frame(editor: unknown, { isGroup = false } = {}): TemplateResult {
    const { field, inputId } = this;
    const label = html`${field.label}${field.isRequired ? html`<span class="mark" aria-hidden="true">*</span>` : nothing}
      ${field.isItem || isSameName(field) ? nothing : html`<code class="quiet">${field.name}</code>`}${field.isDeprecated ? html`<span class="tag">deprecated</span>` : nothing}`;
    const about = [field.isDeprecated ? 'Deprecated.' : '', field.description].join(' ').trim();
    return html`
      <div class="field" role=${isGroup ? 'group' : nothing} aria-labelledby=${isGroup ? `${inputId}-label` : nothing}>
        ${isGroup
          ? html`<div class="label" id="${inputId}-label">${label}</div>`
          : html`<label class="label" for=${inputId}>${label}</label>`}
        ${editor}
        ${about ? html`<p class="about" id="${inputId}-about">${about}</p>` : nothing}
        ${this.problem
          ? html`<p class="problem" id="${inputId}-problem">${this.problem}</p>`
          : nothing}
      </div>
    `;
  }
}

/** Whether the label says the input's name already, in words. */
function isSameName({ label, name }: Field): boolean {
  return label.toLowerCase().replace(/\W+/g, '_') === name.toLowerCase();
}
