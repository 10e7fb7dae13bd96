import { html, nothing, type TemplateResult } from 'lit';
import { customElement, property, state } from 'lit/decorators.js';
import { call, refusal, sendJson } from '../api/client';
import type { Adapter } from '../api/types';
import { LightElement } from '../light/light-element';
import { saveBlob } from '../output-value/output-value';

/** What can be done with an adapter: name it, use it next, compare it, take it home. */
@customElement('adapter-keep')
export class AdapterKeep extends LightElement {
  @property() adapter = '';
  @state() private said = '';
  @state() private problem = '';

  override render(): TemplateResult {
    return html`
      <form class="keep" @submit=${this.name}>
        <p>The adapter <code>${this.adapter}</code> is kept. Name it to find it again:</p>
        <div class="row">
          <label>Name <input name="name" required maxlength="100" autocomplete="off"
            aria-invalid=${this.problem ? 'true' : 'false'} /></label>
          <button class="small">Keep this adapter</button>
        </div>
        <p role="status" class="quiet">${this.said}</p>
        ${this.problem ? html`<p class="problem" role="alert">${this.problem}</p>` : nothing}
        <div class="row">
          <button type="button" class="small" @click=${() => this.tell('use-adapter', this.adapter)}>
            Use in the next request
          </button>
          <button type="button" class="small" @click=${() => this.tell('compare-adapter', this.adapter)}>
            Compare
          </button>
          <button type="button" class="small" @click=${() => this.download('safetensors')}>Download</button>
          <button type="button" class="small" @click=${() => this.download('peft')}>Download for PEFT</button>
        </div>
      </form>
    `;
  }

  private async name(event: Event): Promise<void> {
    event.preventDefault();
    const name = new FormData(event.target as HTMLFormElement).get('name');
    await this.attempt(async () => {
      const kept = await sendJson<Adapter>('PATCH', `adapters/${encodeURIComponent(this.adapter)}`, { name });
      this.said = `Kept as ${kept.name ?? ''}, version ${kept.version ?? 1}.`;
    });
  }

  private async download(format: 'safetensors' | 'peft'): Promise<void> {
    await this.attempt(() => downloadAdapter(this.adapter, format));
  }

  private async attempt(act: () => Promise<void>): Promise<void> {
    this.problem = this.said = '';
    try {
      await act();
    } catch (error) {
      this.problem = (error as Error).message;
    }
  }
}

/** Save an adapter as a file; a plain link could not carry the key. */
export async function downloadAdapter(id: string, format: 'safetensors' | 'peft'): Promise<void> {
  const answer = await call(`adapters/${encodeURIComponent(id)}/download?format=${format}`);
  if (!answer.ok) throw await refusal(answer);
  saveBlob(await answer.blob(), `${id}.${format === 'peft' ? 'zip' : 'safetensors'}`);
}
