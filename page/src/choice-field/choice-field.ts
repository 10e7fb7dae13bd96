import { html, nothing, type TemplateResult } from 'lit';
import { customElement } from 'lit/decorators.js';
import { FieldElement } from '../field-frame/field-element';

/** One of some values. */
@customElement('choice-field')
export class ChoiceField extends FieldElement {
  override render(): TemplateResult {
    const { choices } = this.field;
    const chosen = choices.findIndex((each) => each === this.value);
    return this.frame(html`
      <select
        id=${this.inputId}
        aria-describedby=${this.describedBy}
        aria-invalid=${this.isInvalid}
        @change=${this.read}
      >
        ${chosen < 0 || !this.field.isRequired ? html`<option value="">(none)</option>` : nothing}
        ${choices.map(
          (each, place) =>
            html`<option value=${place} .selected=${place === chosen}>${String(each)}</option>`,
        )}
      </select>
    `);
  }

  private read(event: Event): void {
    const { value } = event.target as HTMLSelectElement;
    this.change(value === '' ? undefined : this.field.choices[Number(value)]);
  }
}
