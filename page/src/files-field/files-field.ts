import { html, nothing, type TemplateResult } from 'lit';
import { customElement, state } from 'lit/decorators.js';
import { thumbnail } from '../answer-list/asked-input';
import type { Json } from '../api/types';
import { FieldElement } from '../field-frame/field-element';
import { dataUri } from '../file-field/data-uri';

/** Several files: dropped or chosen together, or named by address; pictures are shown small, sounds with a player. */
@customElement('files-field')
export class FilesField extends FieldElement {
  @state() private isOver = false;

  override render(): TemplateResult {
    return this.frame(
      html`
        <div class="drop file-drop ${this.isOver ? 'over' : ''}"
          @dragover=${this.drag} @dragleave=${() => (this.isOver = false)} @drop=${this.drop}>
          ${this.items.length > 0 ? html`<ul class="tiles">${this.items.map((each, place) => this.tile(each, place))}</ul>` : nothing}
          <span class="button small file-button">
            Choose files
            <input id=${this.inputId} type="file" multiple aria-label="Choose files for ${this.field.label}"
              aria-describedby=${this.describedBy} aria-invalid=${this.isInvalid}
              @change=${this.choose} />
          </span>
          <span class="quiet">or drop them here, or</span>
          <input type="url" placeholder="an address, https://…" aria-label="Address of a file for ${this.field.label}"
            @change=${this.address} />
        </div>
      `,
      { isGroup: true },
    );
  }

  private get items(): Json[] {
    return Array.isArray(this.value) ? this.value : [];
  }

  private tile(item: Json, place: number): TemplateResult {
    const name = `${this.field.label} ${place + 1}`;
    return html`<li class="tile">
      ${thumbnail(String(item), name) ?? html`<span class="quiet">${String(item).slice(0, 200)}</span>`}
      <button type="button" class="small tile-remove" aria-label="Remove ${name}"
        @click=${() => this.write(this.items.filter((_, other) => other !== place))}>×</button>
    </li>`;
  }

  private drag(event: DragEvent): void {
    event.preventDefault();
    this.isOver = true;
  }

  private drop(event: DragEvent): void {
    event.preventDefault();
    this.isOver = false;
    void this.take(event.dataTransfer?.files ?? null);
  }

  private async choose(event: Event): Promise<void> {
    const chosen = event.target as HTMLInputElement;
    await this.take(chosen.files);
    chosen.value = ''; // the same file may be chosen again
  }

  private async take(files: FileList | null): Promise<void> {
    try {
      const read = await Promise.all([...(files ?? [])].map(dataUri));
      if (read.length > 0) this.write([...this.items, ...read]);
    } catch (error) {
      this.change(this.value, (error as Error).message); // a folder that is dropped, or a file that has gone
    }
  }

  private address(event: Event): void {
    const typed = event.target as HTMLInputElement;
    if (typed.value === '') return;
    this.write([...this.items, typed.value]);
    typed.value = '';
  }

  private write(items: Json[]): void {
    this.change(items.length > 0 || this.field.isRequired || this.field.default ? items : undefined);
  }
}
