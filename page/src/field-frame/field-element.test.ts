import { html, type TemplateResult } from 'lit';
import { expect, test } from 'vitest';
import { HOSTILE, changesOf, field, found, shown } from '../testing/shown';
import { FieldElement } from './field-element';

class PlainField extends FieldElement {
  override render(): TemplateResult {
    return this.frame(html`<input id=${this.inputId} aria-describedby=${this.describedBy} aria-invalid=${this.isInvalid}
      @input=${() => this.change('typed')} />`);
  }
}
customElements.define('plain-field', PlainField);

test('the label is of the input, says that it is required, and the name where it is another', async () => {
  const element = await shown('plain-field', { field: field({ label: 'Batch size', name: 'batch_size', isRequired: true }) });
  const label = found<HTMLLabelElement>(element, 'label');
  expect(label.htmlFor).toBe(found(element, 'input').id);
  expect(label.textContent.replace(/\s+/g, ' ').trim()).toBe('Batch size*');
  const other = await shown('plain-field', { field: field({ label: 'Rows a step', name: 'batch_size' }) });
  expect(found(other, 'label').textContent.replace(/\s+/g, ' ').trim()).toBe('Rows a step batch_size');
});

test('description and problem stand below, and a screen reader finds them from the input', async () => {
  const element = await shown('plain-field', { field: field({ description: 'How many.', isDeprecated: true }), problem: 'too few' });
  const input = found(element, 'input');
  const described = (input.getAttribute('aria-describedby') ?? '').split(' ').map((id) => found(element, `#${id}`).textContent);
  expect(described).toEqual(['Deprecated. How many.', 'too few']);
  expect(input.getAttribute('aria-invalid')).toBe('true');
});

test('an input without a problem is described by nothing', async () => {
  const element = await shown('plain-field', { field: field({}) });
  expect(found(element, 'input').hasAttribute('aria-describedby')).toBe(false);
  expect(element.querySelector('.about, .problem')).toBeNull();
});

test('what the document and the server say is shown as text', async () => {
  const element = await shown('plain-field', { field: field({ label: HOSTILE, description: HOSTILE }), problem: HOSTILE });
  expect(element.querySelector('img')).toBeNull();
  for (const part of ['.label', '.about', '.problem']) expect(found(element, part).textContent).toContain(HOSTILE);
});

test('a change is told with the name of the input', async () => {
  const element = await shown('plain-field', { field: field({ name: 'text' }) });
  const changes = changesOf(document.body);
  found(element, 'input').dispatchEvent(new Event('input'));
  expect(changes).toEqual([{ name: 'text', value: 'typed', problem: undefined }]);
});
