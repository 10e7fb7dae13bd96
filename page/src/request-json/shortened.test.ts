import { expect, test } from 'vitest';
import { shortened, starred, unstarred } from './shortened';

const FILE = `data:image/png;base64,${'A'.repeat(5000)}`;

test('a long file is short in the text, and whole again when it is read', () => {
  const { text, read } = shortened({ image: FILE, files: [FILE, 'x'] });
  expect(text.length).toBeLessThan(500);
  expect(read(text)).toEqual({ image: FILE, files: [FILE, 'x'] });
});

test('a secret is starred out, and comes back', () => {
  const { text, read } = shortened({ token: 'hidden' }, ['token']);
  expect(text).not.toContain('hidden');
  expect(read(text)).toEqual({ token: 'hidden' });
  expect(read(text.replace('**********', 'new'))).toEqual({ token: 'new' });
});

test('what is no request is refused in words', () => {
  expect(() => shortened({}).read('[]')).toThrow('A request is {"input": {…}}.');
  expect(() => shortened({}).read('{')).toThrow(SyntaxError);
});

test('stars stand for a secret, and are none', () => {
  const values = { token: 'hidden', keys: ['a'], text: '**********' };
  const shown = starred(values, ['token', 'keys']);
  expect(shown).toEqual({ token: '**********', keys: '**********', text: '**********' });
  expect(unstarred(shown, ['token', 'keys'])).toEqual({ text: '**********' });
  expect(unstarred(values, ['token', 'keys'])).toEqual(values);
});

test('a list of secrets is starred out, and comes back', () => {
  const { text, read } = shortened({ keys: ['hidden', 'too'] }, ['keys']);
  expect(text).not.toContain('hidden');
  expect(read(text)).toEqual({ keys: ['hidden', 'too'] });
});
