import { expect, test } from 'vitest';
import { HOSTILE, button, changesOf, enter, field, found, settled, shown } from '../testing/shown';
import type { ChatField } from './chat-field';
import './chat-field';

test('messages are added in turn, changed and removed', async () => {
  const value = [{ role: 'user', content: HOSTILE }];
  const element = await shown<ChatField>('chat-field', { field: field({ editor: 'chat' }), value });
  const changes = changesOf(element);
  button(element, 'Add a message').click();
  await settled();
  await enter(found(element, '[aria-label="Message 2"]'), 'hello');
  button(element, 'Remove message 1').click();
  await settled();
  expect(changes.at(-2)?.value).toEqual([...value, { role: 'assistant', content: 'hello' }]);
  expect(changes.at(-1)?.value).toEqual([{ role: 'assistant', content: 'hello' }]);
  expect(element.querySelector('img')).toBeNull();
});
