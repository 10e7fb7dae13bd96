import { html, type TemplateResult } from 'lit';
import { customElement } from 'lit/decorators.js';
import { FieldElement } from '../field-frame/field-element';
import { cellText, isRow, type Row } from '../output-value/shapes';

const ROLES = ['system', 'user', 'assistant'];

/** A chat: messages of the system, the user and the assistant, one after the other. */
@customElement('chat-field')
export class ChatField extends FieldElement {
  override render(): TemplateResult {
    return this.frame(
      html`
        <ol class="chat">${this.messages.map((each, place) => this.message(each, place))}</ol>
        <button type="button" class="small" id=${this.inputId} aria-describedby=${this.describedBy}
          data-invalid=${this.isInvalid} @click=${this.add}>Add a message</button>
      `,
      { isGroup: true },
    );
  }

  private get messages(): Row[] {
    return Array.isArray(this.value) ? this.value.filter(isRow) : [];
  }

  private message(message: Row, place: number): TemplateResult {
    const role = String(message.role ?? 'user');
    const roles = ROLES.includes(role) ? ROLES : [...ROLES, role];
    return html`<li class="message is-${ROLES.includes(role) ? role : 'user'}">
      <div class="row">
        <select aria-label="Role of message ${place + 1}"
          @change=${(event: Event) => this.replace(place, { role: (event.target as HTMLSelectElement).value })}>
          ${roles.map((each) => html`<option value=${each} .selected=${each === role}>${each}</option>`)}
        </select>
        <button type="button" class="small" aria-label="Remove message ${place + 1}"
          @click=${() => this.write(this.messages.filter((_, other) => other !== place))}>×</button>
      </div>
      <textarea rows="2" aria-label="Message ${place + 1}" .value=${cellText(message.content)}
        @input=${(event: Event) => this.replace(place, { content: (event.target as HTMLTextAreaElement).value })}></textarea>
    </li>`;
  }

  private replace(place: number, part: Row): void {
    this.write(this.messages.map((each, other) => (other === place ? { ...each, ...part } : each)));
  }

  private add(): void {
    const role = this.messages.at(-1)?.role === 'user' ? 'assistant' : 'user';
    this.write([...this.messages, { role, content: '' }]);
    void this.focusLast();
  }

  /** Put the focus into the last message. */
  async focusLast(): Promise<void> {
    await this.updateComplete;
    [...this.querySelectorAll('textarea')].at(-1)?.focus();
  }

  private write(messages: Row[]): void {
    this.change(messages.length > 0 || this.field.isRequired ? messages : undefined);
  }
}
