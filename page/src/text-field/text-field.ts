import { html, nothing, type TemplateResult } from 'lit';
import { customElement } from 'lit/decorators.js';
import { FieldElement } from '../field-frame/field-element';

const LINE = 66; // characters in a line of the form

/** Text of one line or of many. */
@customElement('text-field')
export class TextField extends FieldElement {
  override render(): TemplateResult {
    const text = typeof this.value === 'string' ? this.value : '';
    const rows = Math.min(12, Math.max(Math.ceil(text.length / LINE), text.split('\n').length));
    return this.frame(html`
      <textarea
        id=${this.inputId}
        rows=${rows}
        .value=${text}
        maxlength=${this.field.maxLength ?? nothing}
        aria-describedby=${this.describedBy}
        aria-invalid=${this.isInvalid}
        aria-required=${this.field.isRequired ? 'true' : 'false'}
        @input=${this.read}
      ></textarea>
    `);
  }

  private read(event: Event): void {
    const text = (event.target as HTMLTextAreaElement).value;
    const isLeftOut = text === '' && !this.field.isRequired && (this.field.default ?? null) === null;
    this.change(isLeftOut ? undefined : text);
  }
}
