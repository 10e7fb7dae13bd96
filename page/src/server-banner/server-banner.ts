import { html, type TemplateResult } from 'lit';
import { customElement, state } from 'lit/decorators.js';
import { connection } from '../connection/connection';
import { LightElement } from '../light/light-element';

const SHOWN_MS = 4000;

/** Says that the server is gone, and that it is back. */
@customElement('server-banner')
export class ServerBanner extends LightElement {
  @state() private said: 'nothing' | 'gone' | 'back' = 'nothing';

  override connectedCallback(): void {
    super.connectedCallback();
    connection.addEventListener('down', this.gone);
    connection.addEventListener('up', this.back);
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    connection.removeEventListener('down', this.gone);
    connection.removeEventListener('up', this.back);
  }

  override render(): TemplateResult {
    const words = {
      nothing: '',
      gone: 'The server does not answer. What you typed is kept; this page looks for the server again and again.',
      back: 'The server is back.',
    };
    return html`<p class="banner ${this.said}" role="status" ?hidden=${this.said === 'nothing'}>${words[this.said]}</p>`;
  }

  private readonly gone = (): void => {
    this.said = 'gone';
  };

  private readonly back = (): void => {
    this.said = 'back';
    setTimeout(() => {
      if (this.said === 'back') this.said = 'nothing';
    }, SHOWN_MS);
  };
}
