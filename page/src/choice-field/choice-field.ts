import { html, nothing, type TemplateResult } from 'lit';
import { customElement, state } from 'lit/decorators.js';
import { FieldElement } from '../field-frame/field-element';

/** What the methods of an adaptation train, in words. */
const METHODS: Record<string, string> = {
  auto: 'auto: what answers best',
  lora: 'lora: small matrices beside the layers',
  head: 'head: the last layer alone',
  norms: 'norms: the normalizations',
  bias: 'bias: the biases',
  all: 'all: every weight',
};

/** One of some values, or a text of one's own where that is allowed too. */
@customElement('choice-field')
export class ChoiceField extends FieldElement {
  @state() private isOther = false;

  override render(): TemplateResult {
    const { choices, isOpen, isRequired, default: standard } = this.field;
    const chosen = choices.findIndex((each) => each === this.value);
    const isOther = isOpen === true && chosen < 0 && (this.isOther || (typeof this.value === 'string' && this.value !== ''));
    const mayBeNone = (chosen < 0 && !isOther) || (!isRequired && !choices.includes(standard ?? null));
    return this.frame(html`
      <select
        id=${this.inputId}
        aria-describedby=${this.describedBy}
        aria-invalid=${this.isInvalid}
        @change=${this.read}
      >
        ${mayBeNone ? html`<option value="" .selected=${chosen < 0 && !isOther}>(none)</option>` : nothing}
        ${choices.map(
          (each, place) =>
            html`<option value=${place} .selected=${place === chosen}>${this.words(String(each))}</option>`,
        )}
        ${isOpen ? html`<option value="other" .selected=${isOther}>another…</option>` : nothing}
      </select>
      ${isOther
        ? html`<input type="text" aria-label="${this.field.label}, another" .value=${typeof this.value === 'string' ? this.value : ''}
            @input=${(event: Event) => this.change((event.target as HTMLInputElement).value)} />`
        : nothing}
    `);
  }

  private words(choice: string): string {
    return this.field.name === 'method' ? (METHODS[choice] ?? choice) : choice;
  }

  private read(event: Event): void {
    const { value } = event.target as HTMLSelectElement;
    this.isOther = value === 'other';
    this.change(value === 'other' ? '' : value === '' ? undefined : this.field.choices[Number(value)]);
  }
}
