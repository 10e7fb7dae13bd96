import { html, type TemplateResult } from 'lit';
import { customElement } from 'lit/decorators.js';
import { FieldElement } from '../field-frame/field-element';

/** A secret: masked here, and starred out wherever the request is shown. */
@customElement('secret-field')
export class SecretField extends FieldElement {
  override render(): TemplateResult {
    return this.frame(html`
      <input
        id=${this.inputId}
        type="password"
        autocomplete="off"
        spellcheck="false"
        .value=${typeof this.value === 'string' ? this.value : ''}
        aria-describedby=${this.describedBy}
        aria-invalid=${this.isInvalid}
        @input=${(event: Event) =>
          this.change((event.target as HTMLInputElement).value || undefined)}
      />
    `);
  }
}
