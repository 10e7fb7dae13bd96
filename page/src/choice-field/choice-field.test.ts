import { expect, test } from 'vitest';
import { HOSTILE, changesOf, enter, field, found, shown } from '../testing/shown';
import type { ChoiceField } from './choice-field';
import './choice-field';

const CHOICES = field({ editor: 'choice', choices: [1, '1', 2.5, true, HOSTILE] });

function words(element: HTMLElement): string[] {
  return [...element.querySelectorAll('option')].map((each) => each.textContent);
}

test('each choice is sent as the value that it is: a number stays a number', async () => {
  const element = await shown<ChoiceField>('choice-field', { field: CHOICES, value: 1 });
  const changes = changesOf(element);
  for (const place of ['1', '2', '3', '0']) await enter(found(element, 'select'), place, 'change');
  expect(changes.map((each) => each.value)).toEqual(['1', 2.5, true, 1]);
});

test('the value is the one that is chosen, not one that looks like it', async () => {
  const element = await shown<ChoiceField>('choice-field', { field: CHOICES });
  expect(found<HTMLSelectElement>(element, 'select').value).toBe('');
  element.value = '1';
  await element.updateComplete;
  expect(found<HTMLSelectElement>(element, 'select').value).toBe('1');
  expect([...element.querySelectorAll('option')].filter((each) => each.selected)).toHaveLength(1);
});

test('where none is needed, none can be chosen, and the input is left out', async () => {
  const element = await shown<ChoiceField>('choice-field', { field: CHOICES, value: 2.5 });
  expect(words(element)[0]).toBe('(none)');
  const changes = changesOf(element);
  await enter(found(element, 'select'), '', 'change');
  expect(changes.map((each) => each.value)).toEqual([undefined]);
});

test('where one is needed, none is offered only until one is chosen', async () => {
  const element = await shown<ChoiceField>('choice-field', { field: { ...CHOICES, isRequired: true } });
  expect(words(element)[0]).toBe('(none)');
  element.value = 2.5;
  await element.updateComplete;
  expect(words(element)).toEqual(['1', '1', '2.5', 'true', HOSTILE]);
  expect(element.querySelector('img')).toBeNull();
});
