import { html, type PropertyValues, type TemplateResult } from 'lit';
import { customElement, property, query } from 'lit/decorators.js';
import { LightElement } from '../light/light-element';

const MOST = 100_000;

/** What a run prints; it follows the end unless the reader has scrolled up. */
@customElement('log-view')
export class LogView extends LightElement {
  @property({ attribute: false }) text = '';
  @query('pre') private lines!: HTMLElement | null;
  private isAtEnd = true;

  override render(): TemplateResult {
    return html`<pre class="text log" tabindex="0" aria-label="Logs" @scroll=${this.note}>${this.text.slice(-MOST) || 'Nothing was printed.'}</pre>`;
  }

  override updated(changed: PropertyValues<this>): void {
    if (changed.has('text') && this.isAtEnd && this.lines) this.lines.scrollTop = this.lines.scrollHeight;
  }

  private note(): void {
    if (!this.lines) return;
    const { scrollTop, scrollHeight, clientHeight } = this.lines;
    this.isAtEnd = scrollTop + clientHeight >= scrollHeight - 4;
  }
}
