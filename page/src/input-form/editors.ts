/** Which element edits which input. */
import { html, type TemplateResult } from 'lit';
import type { Json } from '../api/types';
import type { Field } from '../inputs/fields';

/** Render the editor of a field; its changes bubble as `value-change`. `known`: fields that a row may have. */
export function editorFor(field: Field, value: Json | undefined, problem: string, known: string[] = []): TemplateResult {
  switch (field.editor) {
    case 'number':
      return html`<number-field .field=${field} .value=${value} .problem=${problem}></number-field>`;
    case 'bool':
      return html`<bool-field .field=${field} .value=${value} .problem=${problem}></bool-field>`;
    case 'choice':
      return html`<choice-field .field=${field} .value=${value} .problem=${problem}></choice-field>`;
    case 'secret':
      return html`<secret-field .field=${field} .value=${value} .problem=${problem}></secret-field>`;
    case 'file':
      return html`<file-field .field=${field} .value=${value} .problem=${problem}></file-field>`;
    case 'list':
      return html`<list-field .field=${field} .value=${value} .problem=${problem}></list-field>`;
    case 'files':
      return html`<files-field .field=${field} .value=${value} .problem=${problem}></files-field>`;
    case 'rows':
      return html`<rows-field .field=${field} .value=${value} .known=${known} .problem=${problem}></rows-field>`;
    case 'chat':
      return html`<chat-field .field=${field} .value=${value} .problem=${problem}></chat-field>`;
    case 'json':
      return html`<json-field .field=${field} .value=${value} .problem=${problem}></json-field>`;
    case 'examples':
      return html`<examples-editor .field=${field} .value=${value} .problem=${problem}></examples-editor>`;
    default:
      return html`<text-field .field=${field} .value=${value} .problem=${problem}></text-field>`;
  }
}
