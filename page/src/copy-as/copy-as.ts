import { html, nothing, type TemplateResult } from 'lit';
import { customElement, property, state } from 'lit/decorators.js';
import { address } from '../api/client';
import type { Kind, Values } from '../api/types';
import { keys } from '../keys/keys';
import { LightElement } from '../light/light-element';
import { textBlock } from '../output-value/output-value';
import { starred } from '../request-json/shortened';
import { codeOf, type Language } from './code';

const LANGUAGES: Language[] = ['curl', 'Python', 'JavaScript'];

/** The request as code to paste elsewhere. */
@customElement('copy-as')
export class CopyAs extends LightElement {
  @property() kind: Kind = 'predictions';
  @property({ attribute: false }) values: Values = {};
  @property({ attribute: false }) secrets: string[] = [];
  @state() private language: Language | null = null;
  @state() private isCopied = false;

  override render(): TemplateResult {
    return html`
      <div class="row" role="group" aria-label="Copy as code">
        <span class="quiet">Copy as</span>
        ${LANGUAGES.map(
          (each) => html`<button type="button" class="small" aria-expanded=${this.language === each}
            @click=${() => this.show(each)}>${each}</button>`,
        )}
        <span role="status" class="quiet">${this.isCopied ? 'Copied.' : ''}</span>
      </div>
      ${this.language === null ? nothing : textBlock(this.code(this.language))}
      ${this.language !== null && this.secrets.some((each) => each in this.values)
        ? html`<p class="quiet">Secrets are starred out: put them in.</p>`
        : nothing}
    `;
  }

  private code(language: Language): string {
    return codeOf(language, {
      url: address(this.kind),
      input: starred(this.values, this.secrets),
      needsKey: keys.current !== null,
    });
  }

  private async show(language: Language): Promise<void> {
    this.language = this.language === language ? null : language;
    this.isCopied = false;
    if (this.language === null) return;
    try {
      await navigator.clipboard.writeText(this.code(language));
      this.isCopied = true;
    } catch {
      // No clipboard without a secure origin or a permission: the code is there to be selected.
    }
  }
}
