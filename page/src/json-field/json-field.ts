import { html, type PropertyValues, type TemplateResult } from 'lit';
import { customElement, state } from 'lit/decorators.js';
import type { Json } from '../api/types';
import { FieldElement } from '../field-frame/field-element';

/** Any JSON value; what is typed stays as it is typed, also while it is no JSON yet. */
@customElement('json-field')
export class JsonField extends FieldElement {
  @state() private text = '';
  private written: Json | undefined;

  override willUpdate(changed: PropertyValues<this>): void {
    if (changed.has('value') && this.value !== this.written) {
      this.text = this.value === undefined ? '' : JSON.stringify(this.value, null, 1);
    }
  }

  override render(): TemplateResult {
    return this.frame(html`
      <textarea
        id=${this.inputId}
        class="code"
        rows=${Math.min(12, this.text.split('\n').length)}
        spellcheck="false"
        .value=${this.text}
        aria-describedby=${this.describedBy}
        aria-invalid=${this.isInvalid}
        @input=${this.read}
      ></textarea>
    `);
  }

  private read(event: Event): void {
    this.text = (event.target as HTMLTextAreaElement).value;
    if (this.text.trim() === '') return this.write(undefined);
    try {
      this.write(JSON.parse(this.text) as Json);
    } catch (error) {
      this.change(this.value, `This is no JSON: ${(error as Error).message}`);
    }
  }

  private write(value: Json | undefined): void {
    this.written = value;
    this.change(value);
  }
}
