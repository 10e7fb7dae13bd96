import { expect, test } from 'vitest';
import { HOSTILE, found, shown } from '../testing/shown';
import type { LogView } from './log-view';
import './log-view';

/** Give the lines a height: nothing is laid out here. */
function tall(element: HTMLElement): HTMLElement {
  const lines = found(element, 'pre');
  Object.defineProperty(lines, 'scrollHeight', { value: 1000, configurable: true });
  Object.defineProperty(lines, 'clientHeight', { value: 100 });
  return lines;
}

function scroll(lines: HTMLElement, to: number): void {
  lines.scrollTop = to;
  lines.dispatchEvent(new Event('scroll'));
}

test('the end is followed unless the reader has scrolled up, and again at the end', async () => {
  const element = await shown<LogView>('log-view', { text: 'one' });
  const lines = tall(element);
  const after = async (text: string): Promise<number> => {
    element.text += text;
    await element.updateComplete;
    return lines.scrollTop;
  };
  expect(await after('two')).toBe(1000);
  scroll(lines, 300);
  expect(await after('three')).toBe(300);
  scroll(lines, 900);
  expect(await after('four')).toBe(1000);
});

test('what is printed is text', async () => {
  const element = await shown<LogView>('log-view', { text: HOSTILE });
  expect(found(element, 'pre').textContent).toBe(HOSTILE);
  expect(element.querySelector('img')).toBeNull();
});

test('of a very long log the end is shown; of none, that there is none', async () => {
  const element = await shown<LogView>('log-view', { text: `${'x'.repeat(200_000)}end` });
  expect(found(element, 'pre').textContent).toHaveLength(100_000);
  expect(found(element, 'pre').textContent).toMatch(/xend$/);
  element.text = '';
  await element.updateComplete;
  expect(found(element, 'pre').textContent).toBe('Nothing was printed.');
});
