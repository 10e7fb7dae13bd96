import { html, nothing, type PropertyValues, type TemplateResult } from 'lit';
import { customElement, property, state } from 'lit/decorators.js';
import type { Values } from '../api/types';
import { LightElement } from '../light/light-element';
import { shortened, type Shortened } from './shortened';

/** The same request as JSON: what is typed here is in the form at once. */
@customElement('request-json')
export class RequestJson extends LightElement {
  /** Of the text; there is one for predictions and one for trainings. */
  @property() textId = 'request-json';
  @property({ attribute: false }) values: Values = {};
  @property({ attribute: false }) secrets: string[] = [];
  @state() private text = '';
  @state() private problem = '';
  private shown: Shortened = shortened({});
  private written: Values | null = null;

  override willUpdate(changed: PropertyValues<this>): void {
    if (!changed.has('values') || this.values === this.written) return;
    this.shown = shortened(this.values, this.secrets);
    this.text = this.shown.text;
    this.problem = '';
  }

  override render(): TemplateResult {
    return html`
      <div class="field">
        <label class="label" for=${this.textId}>Request as JSON</label>
        <textarea
          id=${this.textId}
          class="code"
          rows="16"
          spellcheck="false"
          .value=${this.text}
          aria-invalid=${this.problem ? 'true' : 'false'}
          aria-describedby=${this.problem ? `${this.textId}-problem` : nothing}
          @input=${this.read}
        ></textarea>
        ${this.problem ? html`<p class="problem" id="${this.textId}-problem">${this.problem}</p>` : nothing}
      </div>
    `;
  }

  private read(event: Event): void {
    this.text = (event.target as HTMLTextAreaElement).value;
    try {
      this.written = this.shown.read(this.text);
      this.problem = '';
      this.tell('values-change', this.written);
    } catch (error) {
      this.problem = (error as Error).message;
    }
    this.tell('json-problem', this.problem);
  }
}
