import { html, type TemplateResult } from 'lit';
import { customElement } from 'lit/decorators.js';
import type { Json } from '../api/types';
import { FieldElement, type ValueChange } from '../field-frame/field-element';
import type { Field } from '../inputs/fields';
import { editorFor } from '../input-form/editors';

const SHORT = 25; // characters
const EMPTY: Partial<Record<Field['editor'], Json>> = { number: 0, bool: false };

/** A list; each item has an editor of its own. Several lines that are pasted become several items. */
@customElement('list-field')
export class ListField extends FieldElement {
  override render(): TemplateResult {
    return this.frame(
      html`
        <ol class="items ${this.items.length === 0 ? 'is-empty' : this.isShort ? 'is-short' : ''}">
          ${this.items.map((item, place) => html`<li>${this.itemRow(item, place)}</li>`)}
        </ol>
        <button type="button" class="small" id=${this.inputId} aria-describedby=${this.describedBy}
          data-invalid=${this.isInvalid} @click=${this.add}>Add to ${this.field.label}</button>
      `,
      { isGroup: true },
    );
  }

  private get items(): Json[] {
    return Array.isArray(this.value) ? this.value : [];
  }

  /** Whether the items are words, which stand side by side. */
  private get isShort(): boolean {
    const { items } = this;
    return items.length > 1 && items.every((each) => typeof each === 'string' && each.length < SHORT && !each.includes('\n'));
  }

  private itemRow(item: Json, place: number): TemplateResult {
    const field: Field = {
      ...(this.field.item as Field),
      name: `${this.field.name}-${place}`,
      id: `${this.field.id}-${place}`,
      label: `${this.field.label} ${place + 1}`,
      isItem: true,
    };
    return html`
      <div class="item" @value-change=${(event: CustomEvent<ValueChange>) => this.replace(place, event)}
        @paste=${(event: ClipboardEvent) => this.paste(place, event)}>
        ${editorFor(field, item, '')}
        <button type="button" class="small" aria-label="Remove ${field.label}"
          @click=${() => this.write(this.items.filter((_, other) => other !== place))}>×</button>
      </div>
    `;
  }

  private replace(place: number, event: CustomEvent<ValueChange>): void {
    event.stopPropagation();
    if (event.detail.problem) return this.change(this.value, event.detail.problem);
    const items = [...this.items];
    items[place] = event.detail.value ?? this.empty;
    this.write(items);
  }

  private paste(place: number, event: ClipboardEvent): void {
    const lines = (event.clipboardData?.getData('text') ?? '').split(/\r?\n/).filter(Boolean);
    if (lines.length < 2 || this.field.item?.editor !== 'text') return;
    event.preventDefault();
    this.write([...this.items.slice(0, place), ...lines, ...this.items.slice(place + 1)]);
  }

  private add(): void {
    this.write([...this.items, this.empty]);
    void this.updateComplete.then(() => {
      const inputs = this.querySelectorAll<HTMLElement>('.item :is(textarea, input, select)');
      inputs[inputs.length - 1]?.focus();
    });
  }

  private get empty(): Json {
    return EMPTY[this.field.item?.editor ?? 'text'] ?? this.field.item?.choices[0] ?? '';
  }

  private write(items: Json[]): void {
    this.change(items.length > 0 || this.field.isRequired || this.field.default ? items : undefined);
  }
}
