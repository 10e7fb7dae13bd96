import { expect, test } from 'vitest';
import { referenceOf } from './media';
import { files } from './origin';

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

test('a file where the server puts them is shown', () => {
  files.origin = 'https://files.example';
  expect(referenceOf('https://files.example/up/a.png')?.isElsewhere).toBe(false);
  expect(referenceOf('https://files.example:8443/up/a.png')?.isElsewhere).toBe(true);
  expect(referenceOf('https://files.example@evil.example/a.png')?.isElsewhere).toBe(true);
  files.origin = null;
  expect(referenceOf('https://files.example/up/a.png')?.isElsewhere).toBe(true);
});
