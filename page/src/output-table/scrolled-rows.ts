/** A list of any length of which only the rows in sight are in the page. */
import { html, type TemplateResult } from 'lit';
import { property, query, state } from 'lit/decorators.js';
import { LightElement } from '../light/light-element';
import { styles } from '../light/styles';
import { ROW_HEIGHT, windowOf } from './window';

const MOST_ROWS = 12;

export abstract class ScrolledRows extends LightElement {
  @property() label = '';
  @state() private scrolled = 0;
  @query('.rows') private scroller!: HTMLElement | null;

  protected abstract get count(): number;
  protected abstract row(place: number): TemplateResult;
  protected abstract head(): TemplateResult;

  protected rows(): TemplateResult {
    const height = Math.min(this.count, MOST_ROWS) * ROW_HEIGHT;
    const { first, end } = windowOf(this.scrolled, height, this.count);
    const places = Array.from({ length: end - first }, (_, place) => first + place);
    return html`
      <div class="grid" role="table" aria-label=${this.label} aria-rowcount=${this.count + 1}>
        <div class="rows" tabindex="0" role="rowgroup" aria-label="${this.label}, rows"
          ${styles({ 'max-height': `${height + ROW_HEIGHT + 2}px` })}
          @scroll=${(event: Event) => (this.scrolled = (event.target as HTMLElement).scrollTop)}>
          <div class="gridrow head" role="row" aria-rowindex="1">${this.head()}</div>
          <div role="presentation" ${styles({ height: `${first * ROW_HEIGHT}px` })}></div>
          ${places.map(
            (place) =>
              html`<div class="gridrow" role="row" aria-rowindex=${place + 2}>${this.row(place)}</div>`,
          )}
          <div role="presentation" ${styles({ height: `${(this.count - end) * ROW_HEIGHT}px` })}></div>
        </div>
      </div>
    `;
  }

  /** Bring a row into sight. */
  protected showRow(place: number): void {
    this.scroller?.scrollTo({ top: Math.max(0, (place - 2) * ROW_HEIGHT) });
  }
}
