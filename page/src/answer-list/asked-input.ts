/** Shows an input as its reader knows it: a text, a picture, a sound, the fields of a row. */
import { html, type TemplateResult } from 'lit';
import type { Json } from '../api/types';
import { referenceOf } from '../output-value/media';
import { cellText, isRow } from '../output-value/shapes';

const MOST_TEXT = 400;
const BEGINS: [RegExp, string][] = [
  [/^iVBORw0KGgo/, 'image/png'],
  [/^\/9j\//, 'image/jpeg'],
  [/^R0lGOD/, 'image/gif'],
  [/^UklGR.{6}XQVZF/, 'audio/wav'],
];
const MOST_FIELDS = 12;

/** Render an input beside its answer, cut to what is recognized at a glance. */
export function askedInput(asked: Json): TemplateResult {
  if (typeof asked === 'string') return thumbnail(asked) ?? html`<p class="asked-text">${cut(asked)}</p>`;
  if (!isRow(asked)) return html`<code>${cut(JSON.stringify(asked))}</code>`;
  const fields = Object.entries(asked);
  return html`<dl class="row-fields">
    ${fields.slice(0, MOST_FIELDS).map(([name, value]) => html`<div><dt>${name}</dt><dd>${cut(cellText(value))}</dd></div>`)}
  </dl>`;
}

/** Render a picture small, or a sound with its player; null where a text is neither. */
export function thumbnail(given: string, name = 'input'): TemplateResult | null {
  const text = asDataUri(given);
  const found = referenceOf(text);
  if (found === null) return null;
  if (found.isElsewhere || found.medium === 'file') return html`<span class="asked-text">${cut(found.isRemote ? text : name)}</span>`;
  if (found.medium === 'image') return html`<img class="thumbnail" src=${text} alt=${name} />`;
  if (found.medium === 'audio') return html`<audio controls src=${text} aria-label=${name}></audio>`;
  return html`<video class="thumbnail" controls src=${text} aria-label=${name}></video>`;
}

function cut(text: string): string {
  return text.length > MOST_TEXT ? `${text.slice(0, MOST_TEXT)}…` : text;
}

/** Return base64 of a picture or a sound as the data URI that a browser shows; other text as it is. */
export function asDataUri(text: string): string {
  const type = BEGINS.find(([begin]) => begin.test(text.slice(0, 40)))?.[1];
  return type ? `data:${type};base64,${text}` : text;
}
