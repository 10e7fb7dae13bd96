import { html, nothing, type TemplateResult } from 'lit';
import { customElement, property, state } from 'lit/decorators.js';
import type { Json } from '../api/types';
import { LightElement } from '../light/light-element';
import { mediaValue } from './media';
import { shapeOf, type Row } from './shapes';
import '../output-table/output-table';

const MOST_TEXT = 50_000;
const MOST_OF_ONE = 10_000; // where there are others beside it
const MOST_ITEMS = 200;
const MOST_NAME = 200;

/** An output, in the form that suits it; of a very long one the beginning, and all of it as a file. */
@customElement('output-value')
export class OutputValue extends LightElement {
  @property({ attribute: false }) value: Json | undefined;
  /** Changes with each change of a value that grows in place. */
  @property({ type: Number }) version = 0;
  /** Whether a list of texts is one text. */
  @property({ type: Boolean }) joins = false;
  @state() private isJson = false;

  override render(): TemplateResult {
    const value = this.joins && Array.isArray(this.value) ? this.value.join('') : this.value;
    const isStructured = value !== null && typeof value === 'object';
    return html`
      <div class="output">
        ${this.isJson ? textBlock(JSON.stringify(value, null, 2)) : this.shown(value, 'output', 0)}
        <div class="row">
          ${isStructured
            ? html`<button type="button" class="small" aria-pressed=${this.isJson}
                @click=${() => (this.isJson = !this.isJson)}>JSON</button>`
            : nothing}
          ${value === null || value === undefined
            ? nothing
            : html`<button type="button" class="small" @click=${() => save(value)}>Save as a file</button>`}
        </div>
      </div>
    `;
  }

  private shown(value: Json | undefined, name: string, depth: number): TemplateResult {
    switch (shapeOf(value, depth)) {
      case 'nothing':
        return html`<span class="quiet">nothing</span>`;
      case 'text':
        return (typeof value === 'string' && mediaValue(value, name)) || textBlock(String(value), depth > 0 ? MOST_OF_ONE : MOST_TEXT);
      case 'table':
        return html`<output-table .data=${value as Row[]} .label=${name}></output-table>`;
      case 'list':
        return this.list(value as Json[], name, depth);
      case 'object':
        return this.parts(value as Row, depth);
      default:
        return textBlock(JSON.stringify(value, null, 2));
    }
  }

  private list(items: Json[], name: string, depth: number): TemplateResult {
    if (items.length === 1) return this.shown(items[0], name, depth + 1); // a number says nothing
    const more = items.length - MOST_ITEMS;
    return html`
      <ol class="values">
        ${items.slice(0, MOST_ITEMS).map(
          (each, place) => html`<li>${this.shown(each, `${name} ${place + 1}`, depth + 1)}</li>`,
        )}
      </ol>
      ${rest(more)}
    `;
  }

  private parts(object: Row, depth: number): TemplateResult {
    const parts = Object.entries(object);
    return html`<dl class="parts">
      ${parts.slice(0, MOST_ITEMS).map(
        ([name, value]) =>
          html`<dt>${name.slice(0, MOST_NAME)}</dt><dd>${this.shown(value, name.slice(0, MOST_NAME), depth + 1)}</dd>`,
      )}
    </dl>
    ${rest(parts.length - MOST_ITEMS)}`;
  }
}

function rest(more: number): TemplateResult | typeof nothing {
  return more > 0 ? html`<p class="quiet">and ${more.toLocaleString('en')} more</p>` : nothing;
}

/** Render text as it is; of a very long one the beginning. */
export function textBlock(text: string, most = MOST_TEXT): TemplateResult {
  const more = text.length - most;
  return html`<pre class="text" tabindex="0">${text.slice(0, most)}</pre>
    ${more > 0 ? html`<p class="quiet">and ${more.toLocaleString('en')} characters more</p>` : nothing}`;
}

function save(value: Json): void {
  const isText = typeof value === 'string';
  const text = isText ? value : JSON.stringify(value, null, 2);
  saveBlob(new Blob([text], { type: 'application/octet-stream' }), isText ? 'output.txt' : 'output.json');
}

/** Give a file to the reader. */
export function saveBlob(blob: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
