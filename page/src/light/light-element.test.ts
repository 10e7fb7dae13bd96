import { html, type TemplateResult } from 'lit';
import { expect, test } from 'vitest';
import { found, shown, toldBy } from '../testing/shown';
import { LightElement } from './light-element';

class LightProbe extends LightElement {
  override render(): TemplateResult {
    return html`<input id="inside" @input=${() => this.tell('typed', 3)} />`;
  }
}
customElements.define('light-probe', LightProbe);

test('it renders into the page itself, where a label and the style sheet reach it', async () => {
  const element = await shown('light-probe');
  expect(element.shadowRoot).toBeNull();
  expect(document.getElementById('inside')).toBe(found(element, 'input'));
});

test('those above are told what has happened', async () => {
  const element = await shown('light-probe');
  const told = toldBy(document.body, 'typed');
  found(element, 'input').dispatchEvent(new Event('input'));
  expect(told).toEqual([3]);
});
