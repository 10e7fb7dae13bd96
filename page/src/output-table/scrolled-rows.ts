/** A list of any length of which only the rows in sight are in the page. */
import { html, type TemplateResult } from 'lit';
import { property, query, state } from 'lit/decorators.js';
import { repeat } from 'lit/directives/repeat.js';
import { LightElement } from '../light/light-element';
import { styles } from '../light/styles';
import { ROW_HEIGHT, stepOf, windowOf } from './window';

const MOST_ROWS = 12;

export abstract class ScrolledRows extends LightElement {
  @property() label = '';
  @state() private scrolled = 0;
  @query('.rows') private scroller!: HTMLElement | null;

  protected abstract get count(): number;
  protected abstract row(place: number): TemplateResult;
  protected abstract head(): TemplateResult;

  protected rows(): TemplateResult {
    const { height } = this;
    const { first, end } = windowOf(this.scrolled, height, this.count);
    const places = Array.from({ length: end - first }, (_, place) => first + place);
    return html`
      <div class="grid" role="table" aria-label=${this.label} aria-rowcount=${this.count + 1}>
        <div class="rows" tabindex="0" role="rowgroup" aria-label="${this.label}, rows"
          ${styles({ 'max-height': `${height + ROW_HEIGHT + 2}px` })}
          @scroll=${this.follow}>
          <div class="gridrow head" role="row" aria-rowindex="1">${this.head()}</div>
          <div role="presentation" ${styles({ height: `${first * ROW_HEIGHT}px` })}></div>
          ${repeat(
            places,
            (place) => place,
            (place) =>
              html`<div class="gridrow" role="row" aria-rowindex=${place + 2}>${this.row(place)}</div>`,
          )}
          <div role="presentation" ${styles({ height: `${(this.count - end) * ROW_HEIGHT}px` })}></div>
        </div>
      </div>
    `;
  }

  private get height(): number {
    return Math.min(this.count, MOST_ROWS) * ROW_HEIGHT;
  }

  private follow(event: Event): void {
    this.scrolled = stepOf((event.target as HTMLElement).scrollTop);
    const typedInto = document.activeElement;
    const row = typedInto?.closest('[aria-rowindex]');
    if (!row || !this.contains(row)) return;
    const place = Number(row.getAttribute('aria-rowindex')) - 2;
    const { first, end } = windowOf(this.scrolled, this.height, this.count);
    if (place < first || place >= end) (typedInto as HTMLElement).blur(); // what is typed is taken before it goes
  }

  /** Bring a row into sight. */
  protected showRow(place: number): void {
    this.scroller?.scrollTo({ top: Math.max(0, (place - 2) * ROW_HEIGHT) });
  }
}
