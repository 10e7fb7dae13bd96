import { html, nothing, type TemplateResult } from 'lit';
import { customElement, property } from 'lit/decorators.js';
import { LightElement } from '../light/light-element';
import { styles } from '../light/styles';

const MOST = 12;

/** How many examples each label has; where pictures are labelled by click, a label to click with. */
@customElement('label-balance')
export class LabelBalance extends LightElement {
  @property({ attribute: false }) counts: [string, number][] = [];
  @property() brush = '';
  @property({ type: Boolean }) picks = false;

  override render(): TemplateResult {
    const most = Math.max(...this.counts.map(([, count]) => count));
    return html`
      ${this.picks ? html`<p class="quiet">Choose a label, then click the pictures that have it.</p>` : nothing}
      <ul class="balance" aria-label="Examples of each label">
        ${this.counts.slice(0, MOST).map(([name, count]) => html`<li>${this.named(name)}
          <span class="bar" aria-hidden="true"><span class="bar-now" ${styles({ width: `${(count / most) * 100}%` })}></span></span>
          <span class="score-value">${count}</span></li>`)}
      </ul>
      ${this.counts.length > MOST ? html`<p class="quiet">and ${this.counts.length - MOST} labels more</p>` : nothing}
    `;
  }

  private named(name: string): TemplateResult {
    if (!this.picks) return html`<span class="score-name" title=${name}>${name}</span>`;
    return html`<button type="button" class="small" aria-pressed=${this.brush === name}
      @click=${() => this.tell('brush-change', this.brush === name ? '' : name)}>${name}</button>`;
  }
}
