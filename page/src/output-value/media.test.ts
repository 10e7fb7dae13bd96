import { expect, test } from 'vitest';
import { referenceOf } from './media';

test.each([
  ['data:image/png;base64,AAAA', 'image'],
  ['data:audio/wav;base64,AAAA', 'audio'],
  ['data:text/html;base64,AAAA', 'file'],
  ['https://example.org/a/clip.MP4?x=1', 'video'],
  ['http://localhost:5000/files/data.bin', 'file'],
])('%s is shown as %s', (text, medium) => {
  expect(referenceOf(text)?.medium).toBe(medium);
});

test.each([
  'javascript:alert(1)',
  ' javascript:alert(1)',
  'vbscript:x',
  'blob:http://x/1',
  'file:///etc/passwd',
  'see https://example.org/a.png',
  'data:text',
  '//example.org/a.png',
])('%s is text', (text) => {
  expect(referenceOf(text)).toBeNull();
});

test('a file of another server is only a link', () => {
  expect(referenceOf('https://example.org/a.png')?.isElsewhere).toBe(true);
  expect(referenceOf(`${location.origin}/a.png`)?.isElsewhere).toBe(location.origin === 'null');
});
