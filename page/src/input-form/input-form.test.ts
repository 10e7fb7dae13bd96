import { expect, test, vi } from 'vitest';
import type { Field } from '../inputs/fields';
import { field, found, shown } from '../testing/shown';
import type { InputForm } from './input-form';
import './input-form';
import '../bool-field/bool-field';
import '../choice-field/choice-field';
import '../examples-editor/examples-editor';
import '../list-field/list-field';
import '../number-field/number-field';
import '../text-field/text-field';

function named(name: string, editor: Field['editor'], isRequired = false): Field {
  return field({ name, id: `input-${name}`, editor, isRequired, item: editor === 'list' ? field({}) : undefined });
}

const TEXTS = Array.from({ length: 7 }, (_, place) => named(`text${place}`, 'text'));
const MANY = [named('count', 'number', true), named('steps', 'number'), ...TEXTS, named('fast', 'bool')];

test('each input has the editor of its kind, with its value and its problem', async () => {
  const fields = [named('text', 'text'), named('steps', 'number'), named('fast', 'bool'), named('texts', 'list')];
  const element = await shown<InputForm>('input-form', { fields, values: { steps: 3 }, problems: { text: 'too long' } });
  expect([...found(element, 'section').children].slice(1).map((each) => each.localName)).toEqual(['text-field', 'number-field', 'bool-field', 'list-field']);
  expect(found<HTMLInputElement>(element, '#input-steps').value).toBe('3');
  expect(found(element, 'text-field .problem').textContent).toBe('too long');
});

test('of many inputs the settings are folded away, and none that is required', async () => {
  const element = await shown<InputForm>('input-form', { fields: MANY });
  const folded = [...found(element, 'details').querySelectorAll('input')].map((each) => each.id);
  expect(folded).toEqual(['input-steps', 'input-fast']);
  expect(found(element, 'summary').textContent).toBe('2 settings, with defaults');
  expect(found<HTMLDetailsElement>(element, 'details').open).toBe(false);
});

test('what teaches is a part of its own, and all else that may be left out is a setting', async () => {
  const fields = [named('text', 'text'), named('examples', 'examples'), named('adapter', 'text'), named('method', 'choice'), named('steps', 'number'), named('stop', 'text')];
  const element = await shown<InputForm>('input-form', { fields });
  const idsIn = (selector: string): string[] => [...found(element, selector).querySelectorAll('[id^=input-]:is(select, textarea, input)')].map((each) => each.id);
  expect(idsIn('[aria-label=Ask]')).toEqual(['input-text']);
  expect(idsIn('[aria-label=Teach]')).toContain('input-method');
  expect(idsIn('details.sources')).toEqual(['input-adapter']);
  expect(idsIn('details.settings')).toEqual(['input-steps', 'input-stop']);
});

test('settings are open where one of them is wrong', async () => {
  const element = await shown<InputForm>('input-form', { fields: MANY });
  element.problems = { steps: 'too few' };
  await element.updateComplete;
  expect(found<HTMLDetailsElement>(element, 'details').open).toBe(true);
});

test.each(['text', 'number', 'bool', 'list'] as const)('the focus goes to the input with the problem: %s', async (editor) => {
  const fields = [named('other', 'text'), named('wrong', editor)];
  const element = await shown<InputForm>('input-form', { fields, problems: { wrong: 'no' } });
  await element.focusProblem();
  await vi.waitFor(() => expect(document.activeElement?.id).toBe('input-wrong'));
});
