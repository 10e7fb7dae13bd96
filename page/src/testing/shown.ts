/** What the tests of elements share: an element in the document, and what it tells. */
import { vi } from 'vitest';
import type { Json } from '../api/types';
import type { ValueChange } from '../field-frame/field-element';
import type { Field } from '../inputs/fields';
import type { LightElement } from '../light/light-element';

const later = setTimeout; // of the real clock, also where a test has put another in its place

/** Text that must stay text wherever it is shown. */
export const HOSTILE = '<img src=x onerror="alert(1)">';

/** Put an element into an empty document, with these properties. */
export async function shown<E extends LightElement>(name: string, properties: object = {}): Promise<E> {
  const element = Object.assign(document.createElement(name), properties) as E;
  document.body.replaceChildren(element);
  await element.updateComplete;
  return element;
}

/** A field of a form, as the server's document may describe one. */
export function field(given: Partial<Field>): Field {
  const plain = { description: '', isRequired: false, isDeprecated: false, isWhole: false, choices: [], default: undefined };
  return { name: 'given', id: 'input-given', label: 'Given', editor: 'text', ...plain, ...given };
}

/** Collect the changes of value that an element tells; each becomes its value, as in a form. */
export function changesOf(element: HTMLElement): ValueChange[] {
  const changes: ValueChange[] = [];
  element.addEventListener('value-change', (event) => {
    const { detail } = event as CustomEvent<ValueChange>;
    changes.push(detail);
    Object.assign(element, { value: detail.value, problem: detail.problem ?? '' });
  });
  return changes;
}

/** Collect the details of one kind of event. */
export function toldBy(element: HTMLElement, name: string): unknown[] {
  const told: unknown[] = [];
  element.addEventListener(name, (event) => told.push((event as CustomEvent<unknown>).detail));
  return told;
}

/** Return the one element that is found; a test fails where there is none. */
export function found<E extends HTMLElement>(within: ParentNode, selector: string): E {
  const element = within.querySelector<E>(selector);
  if (!element) throw new Error(`There is no ${selector}.`);
  return element;
}

/** Return the button whose words, or whose label, are these. */
export function button(within: ParentNode, words: string): HTMLButtonElement {
  const all = [...within.querySelectorAll('button')];
  const named = all.find((each) => (each.getAttribute('aria-label') ?? each.textContent).trim() === words);
  if (!named) throw new Error(`There is no button ${words}.`);
  return named;
}

/** Type, or choose, as the reader does. */
export async function enter(input: HTMLElement, value: string, event = 'input'): Promise<void> {
  Object.assign(input, { value });
  input.dispatchEvent(new Event(event, { bubbles: true }));
  await settled();
}

/** Let promises, answers and renderings end. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => later(resolve, 0));
}

/** Answer requests in this order, the last one again and again; return what was asked. */
export function server(...answers: (() => Response | Promise<Response>)[]): [string, RequestInit][] {
  const asked: [string, RequestInit][] = [];
  const answer = (place: number) => answers[Math.min(place, answers.length - 1)]?.() ?? Response.error();
  const fetched = (url: string, init: RequestInit): Promise<Response> => {
    asked.push([url, init]);
    return Promise.resolve(answer(asked.length - 1));
  };
  vi.stubGlobal('fetch', fetched);
  return asked;
}

/** An answer in JSON. */
export function json(body: Json, status = 200): () => Response {
  return () => new Response(JSON.stringify(body), { status });
}
