/** Says when something was, and how long it took. */
import { html, nothing, type TemplateResult } from 'lit';

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const UNITS: [number, string][] = [
  [DAY, 'day'],
  [HOUR, 'h'],
  [MINUTE, 'min'],
  [1, 's'],
];

/** Return a time as its age; after a week as its date. */
export function ageOf(moment: string, now = Date.now()): string {
  const seconds = Math.floor((now - Date.parse(moment)) / 1000);
  if (seconds < 1) return 'now'; // the server's clock may be ahead
  return seconds < 7 * DAY ? `${span(seconds)} ago` : new Date(moment).toLocaleDateString('en', { dateStyle: 'medium' });
}

/** Return a number of seconds in the unit that suits it. */
export function span(seconds: number): string {
  const [size, unit] = UNITS.find(([each]) => seconds >= each) ?? [1, 's'];
  const count = Math.floor(seconds / size);
  return `${count} ${unit}${unit === 'day' && count !== 1 ? 's' : ''}`;
}

/** Render an age; a pointer over it gets the time itself. */
export function age(moment: string | null | undefined): TemplateResult | typeof nothing {
  if (!moment || Number.isNaN(Date.parse(moment))) return nothing;
  return html`<time datetime=${moment} title=${new Date(moment).toLocaleString()}>${ageOf(moment)}</time>`;
}

/** Return a duration with as many digits as a reader needs. */
export function seconds(value: number): string {
  if (value < 0.0995) return `${Math.max(1, Math.round(value * 1000))} ms`;
  return value < 99.5 ? `${value.toPrecision(2)} s` : span(value);
}
