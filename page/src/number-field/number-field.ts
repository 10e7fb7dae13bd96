import { html, nothing, type TemplateResult } from 'lit';
import { customElement } from 'lit/decorators.js';
import { FieldElement } from '../field-frame/field-element';

/** A number; where it has two bounds, with a slider beside it. */
@customElement('number-field')
export class NumberField extends FieldElement {
  override render(): TemplateResult {
    const { minimum, maximum } = this.field;
    return this.frame(html`
      <div class="row">
        ${minimum !== undefined && maximum !== undefined ? this.slider(minimum, maximum) : nothing}
        <input
          id=${this.inputId}
          type="number"
          class="number"
          .value=${typeof this.value === 'number' ? String(this.value) : ''}
          min=${minimum ?? nothing}
          max=${maximum ?? nothing}
          step=${this.field.isWhole ? 1 : 'any'}
          aria-describedby=${this.describedBy}
          aria-invalid=${this.isInvalid}
          aria-required=${this.field.isRequired ? 'true' : 'false'}
          @input=${this.read}
        />
      </div>
    `);
  }

  private slider(minimum: number, maximum: number): TemplateResult {
    const value = typeof this.value === 'number' ? this.value : minimum;
    return html`
      <input
        type="range"
        aria-label="${this.field.label}, slider"
        min=${minimum}
        max=${maximum}
        step=${this.field.isWhole ? 1 : (maximum - minimum) / 1000}
        .value=${String(value)}
        @input=${this.read}
      />
    `;
  }

  private read(event: Event): void {
    const { value, validity } = event.target as HTMLInputElement;
    if (validity.badInput) this.change(this.value, 'This is no number.');
    else this.change(value === '' ? undefined : Number(value));
  }
}
