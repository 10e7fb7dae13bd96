import { html, nothing, type TemplateResult } from 'lit';
import { customElement, state } from 'lit/decorators.js';
import { FieldElement } from '../field-frame/field-element';
import { mediaValue } from '../output-value/media';
import { dataUri } from './data-uri';

/** A file: dropped, chosen or pasted, and sent inside the request; or the address of one. */
@customElement('file-field')
export class FileField extends FieldElement {
  @state() private fileName = '';
  @state() private isOver = false;

  override render(): TemplateResult {
    const value = typeof this.value === 'string' ? this.value : '';
    return this.frame(html`
      <div class="drop file-drop ${this.isOver ? 'over' : ''}"
        @dragover=${this.drag} @dragleave=${() => (this.isOver = false)} @drop=${this.drop}>
        <span class="button small file-button">
          Choose a file
          <input
            id=${this.inputId}
            type="file"
            aria-describedby=${this.describedBy}
            aria-invalid=${this.isInvalid}
            @change=${(event: Event) => this.take((event.target as HTMLInputElement).files)}
          />
        </span>
        <span class="quiet">or drop it here, or</span>
        <input
          type="url"
          placeholder="its address, https://…"
          aria-label="Address of ${this.field.label}"
          .value=${value.startsWith('data:') ? '' : value}
          @input=${(event: Event) => this.change((event.target as HTMLInputElement).value || undefined)}
        />
        ${value ? this.preview(value) : nothing}
      </div>
    `);
  }

  private preview(value: string): TemplateResult {
    return html`
      <div class="preview">
        ${value.startsWith('data:') ? mediaValue(value, this.fileName || 'file') : nothing}
        <button type="button" class="small" @click=${this.clear}>Remove the file</button>
      </div>
    `;
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

  private async take(files: FileList | null): Promise<void> {
    const file = files?.[0];
    if (!file) return;
    try {
      const value = await dataUri(file);
      this.fileName = file.name;
      this.change(value);
    } catch (error) {
      this.change(this.value, (error as Error).message); // a folder that is dropped, or a file that has gone
    }
  }

  private clear(): void {
    this.fileName = '';
    const chosen = this.querySelector<HTMLInputElement>('input[type=file]');
    if (chosen) chosen.value = '';
    this.change(undefined);
  }
}
