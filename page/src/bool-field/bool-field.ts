import { html, type TemplateResult } from 'lit';
import { customElement } from 'lit/decorators.js';
import { FieldElement } from '../field-frame/field-element';

/** Yes or no. */
@customElement('bool-field')
export class BoolField extends FieldElement {
  override render(): TemplateResult {
    return this.frame(html`
      <input
        id=${this.inputId}
        type="checkbox"
        .checked=${this.value === true}
        aria-describedby=${this.describedBy}
        aria-invalid=${this.isInvalid}
        @change=${(event: Event) => this.change((event.target as HTMLInputElement).checked)}
      />
    `);
  }
}
