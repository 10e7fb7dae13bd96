import { expect, test } from 'vitest';
import { changesOf, enter, field, found, shown } from '../testing/shown';
import type { SecretField } from './secret-field';
import './secret-field';

test('a secret is masked, and nowhere in the document as text', async () => {
  const element = await shown<SecretField>('secret-field', { field: field({ editor: 'secret' }), value: 'hush-1' });
  const input = found<HTMLInputElement>(element, 'input');
  expect([input.type, input.value]).toEqual(['password', 'hush-1']);
  expect(new XMLSerializer().serializeToString(document)).not.toContain('hush-1');
});

test('the browser is asked not to keep it', async () => {
  const element = await shown<SecretField>('secret-field', { field: field({ editor: 'secret' }) });
  expect(found(element, 'input').getAttribute('autocomplete')).toBe('off');
});

test('what is typed is sent, and an empty text is left out', async () => {
  const element = await shown<SecretField>('secret-field', { field: field({ editor: 'secret' }) });
  const changes = changesOf(element);
  await enter(found(element, 'input'), 'hush-2');
  await enter(found(element, 'input'), '');
  expect(changes.map((each) => each.value)).toEqual(['hush-2', undefined]);
});
