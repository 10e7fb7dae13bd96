import { html, nothing, type TemplateResult } from 'lit';
import { customElement, property } from 'lit/decorators.js';
import { LightElement } from '../light/light-element';
import type { Suspect } from './suspects';

const MOST = 20;

/** What is wrong with rows, once and in full; a suspicious label is put right by a click. */
@customElement('row-marks')
export class RowMarks extends LightElement {
  /** Why rows cannot be used, by their place. */
  @property({ attribute: false }) problems = new Map<number, string>();
  @property({ attribute: false }) suspects: Suspect[] = [];

  override render(): TemplateResult | typeof nothing {
    const { suspects } = this;
    const problems = [...this.problems].sort(([one], [other]) => one - other);
    if (problems.length + suspects.length === 0) return nothing;
    return html`<div role="status"><ul class="marks" aria-label="Rows to look at">
      ${problems.slice(0, MOST).map(([place, said]) => html`<li class="problem">${this.rowLink(place)} ${said}</li>`)}
      ${suspects.map((each) => html`<li class="suspect">${this.rowLink(each.place)} ${each.why} ${putRight(each)}</li>`)}
      ${suspects.length > 1
        ? html`<li><button type="button" class="small" @click=${() => this.tell('put-right', suspects)}>Change all ${suspects.length} and teach again</button></li>`
        : nothing}
    </ul></div>`;
  }

  private rowLink(place: number): TemplateResult {
    return html`<button type="button" class="link" @click=${() => this.tell('row-show', place)}>Row ${place + 1}</button>:`;
  }
}

/** Render what puts a label right where it stands. */
export function putRight(suspect: Suspect): TemplateResult {
  const { label, place, why } = suspect;
  return html`<button type="button" class="small put-right" title=${why} aria-label="Change row ${place + 1} to ${label} and teach again"
    @click=${({ target }: Event) => target?.dispatchEvent(new CustomEvent('put-right', { detail: [suspect], bubbles: true }))}>→ ${label.slice(0, 60)}</button>`;
}
