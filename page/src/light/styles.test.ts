import { html, render } from 'lit';
import { expect, test, vi } from 'vitest';
import { found } from '../testing/shown';
import { styles } from './styles';

function show(given: Record<string, string>): HTMLElement {
  render(html`<div ${styles(given)}></div>`, document.body);
  return found(document.body, 'div');
}

test('each style is set, and set again when it changes', () => {
  expect(show({ height: '20px', '--part': '1' }).style.height).toBe('20px');
  const { style } = show({ height: '30px', '--part': '2' });
  expect([style.height, style.getPropertyValue('--part')]).toEqual(['30px', '2']);
});

test('no style attribute is written, which the security policy would refuse', () => {
  const setProperty = vi.fn(); // the document's own writes an attribute here, which a browser's does not
  vi.spyOn(HTMLElement.prototype, 'style', 'get').mockReturnValue({ setProperty } as unknown as CSSStyleDeclaration);
  const written = vi.spyOn(Element.prototype, 'setAttribute');
  show({ height: '40px' });
  expect(setProperty.mock.calls).toEqual([['height', '40px']]);
  expect(written.mock.calls.filter(([name]) => name === 'style')).toEqual([]);
});
