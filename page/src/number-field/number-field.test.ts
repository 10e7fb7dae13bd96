import { expect, test } from 'vitest';
import { changesOf, enter, field, found, shown } from '../testing/shown';
import type { NumberField } from './number-field';
import './number-field';

const BOUNDED = { field: field({ editor: 'number', isWhole: true, minimum: 1, maximum: 9 }), value: 4 };

test('bounds, step and value are those of the input, also of its slider', async () => {
  const element = await shown<NumberField>('number-field', BOUNDED);
  for (const type of ['number', 'range']) {
    const input = found<HTMLInputElement>(element, `input[type=${type}]`);
    expect([input.min, input.max, input.step, input.value]).toEqual(['1', '9', '1', '4']);
  }
});

test('without two bounds there is no slider, and any fraction is allowed', async () => {
  const element = await shown<NumberField>('number-field', { field: field({ editor: 'number', minimum: 1 }) });
  expect(element.querySelector('[type=range]')).toBeNull();
  expect(found<HTMLInputElement>(element, 'input').step).toBe('any');
});

test('what is typed is a number, and an empty text leaves the input out', async () => {
  const element = await shown<NumberField>('number-field', BOUNDED);
  const changes = changesOf(element);
  await enter(found(element, '#input-given'), '7');
  await enter(found(element, '#input-given'), '');
  expect(changes.map((each) => each.value)).toEqual([7, undefined]);
});

test('what is no number is said, and the value stays', async () => {
  const element = await shown<NumberField>('number-field', BOUNDED);
  const changes = changesOf(element);
  const input = found<HTMLInputElement>(element, '#input-given');
  Object.defineProperty(input, 'validity', { value: { badInput: true } });
  await enter(input, '');
  expect(changes).toEqual([{ name: 'given', value: 4, problem: 'This is no number.' }]);
  expect(found(element, '.problem').textContent).toBe('This is no number.');
  expect(input.getAttribute('aria-invalid')).toBe('true');
});
