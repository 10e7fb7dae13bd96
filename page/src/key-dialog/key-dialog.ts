import { html, type TemplateResult } from 'lit';
import { customElement, query } from 'lit/decorators.js';
import { keys } from '../keys/keys';
import { LightElement } from '../light/light-element';

/** Asks for the API key when the server wants one. */
@customElement('key-dialog')
export class KeyDialog extends LightElement {
  @query('dialog') private dialog!: HTMLDialogElement | null;
  private readonly follow = (): void => this.requestUpdate();

  override connectedCallback(): void {
    super.connectedCallback();
    keys.addEventListener('change', this.follow);
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    keys.removeEventListener('change', this.follow);
  }

  override render(): TemplateResult {
    return html`
      <dialog aria-labelledby="key-title" @cancel=${() => keys.give(null)}>
        <form method="dialog" @submit=${this.give}>
          <h2 id="key-title">${keys.isRefused ? 'The key is wrong' : 'This server needs a key'}</h2>
          <p id="key-why" role=${keys.isRefused ? 'alert' : 'note'}>${keys.wanted ?? ''}</p>
          <label for="key">API key</label>
          <input id="key" name="key" type="password" required autocomplete="off" spellcheck="false"
            aria-describedby="key-why" aria-invalid=${keys.isRefused ? 'true' : 'false'} />
          <p class="quiet">It is kept in this tab alone, until the tab is closed.</p>
          <div class="row">
            <button class="primary">Use this key</button>
            <button type="button" @click=${() => keys.give(null)}>Go on without</button>
          </div>
        </form>
      </dialog>
    `;
  }

  override updated(): void {
    if (!this.dialog) return;
    if (keys.wanted !== null && !this.dialog.open) this.dialog.showModal();
    if (keys.wanted === null && this.dialog.open) this.dialog.close();
  }

  private give(event: Event): void {
    event.preventDefault();
    const form = event.target as HTMLFormElement;
    const key = String(new FormData(form).get('key') ?? '').trim();
    form.reset();
    keys.give(key);
  }
}
