/** Shows what an output refers to; whatever it says, it can only be a picture, a sound or a file. */
import { html, nothing, type TemplateResult } from 'lit';
import { files } from './origin';

export type Medium = 'image' | 'audio' | 'video' | 'file';

export interface Reference {
  medium: Medium;
  url: string;
  isRemote: boolean;
  /** Whether it is of a server that the page only calls when the reader follows the link. */
  isElsewhere: boolean;
}

const MOST_SHOWN = 500;
const ENDINGS: [Medium, RegExp][] = [
  ['image', /\.(png|jpe?g|gif|webp|avif|bmp|svg)$/i],
  ['audio', /\.(mp3|wav|ogg|flac|m4a|opus)$/i],
  ['video', /\.(mp4|webm|mov|mkv)$/i],
];

/** Return what a text refers to; null: it is text, and nothing but http(s) and data is followed. */
export function referenceOf(text: string): Reference | null {
  if (/^data:[\w.+-]+\/[\w.+-]+[;,]/i.test(text)) {
    const medium = /^data:(image|audio|video)\//i.exec(text)?.[1]?.toLowerCase();
    return { medium: (medium as Medium | undefined) ?? 'file', url: text, isRemote: false, isElsewhere: false };
  }
  if (!/^https?:\/\/\S+$/i.test(text) || !URL.canParse(text)) return null;
  const { pathname, origin } = new URL(text);
  const medium = ENDINGS.find(([, ending]) => ending.test(pathname))?.[0] ?? 'file';
  return { medium, url: text, isRemote: true, isElsewhere: origin !== location.origin && origin !== files.origin };
}

/** Render a text that may refer to something; null: it is no reference. */
export function mediaValue(text: string, name: string): TemplateResult | null {
  const found = referenceOf(text);
  if (found === null) return null;
  const isShown = found.medium !== 'file' && !found.isElsewhere;
  return html`<figure class="media">
    ${isShown ? player(found, name) : nothing}
    <figcaption>${link(found, name)} ${why(found)}</figcaption>
  </figure>`;
}

/** Say why a picture, a sound or a film is not in the page. */
function why({ medium, isElsewhere }: Reference): TemplateResult | typeof nothing {
  if (!isElsewhere || medium === 'file') return nothing;
  const noun = { image: 'picture', audio: 'sound', video: 'film' }[medium];
  return html`<span class="quiet">This ${noun} is on another server, which this page does not call. The link does.</span>`;
}

function player({ medium, url }: Reference, name: string): TemplateResult {
  if (medium === 'image') return html`<img src=${url} alt=${name} @error=${hide} />`;
  if (medium === 'audio') return html`<audio controls src=${url} aria-label=${name} @error=${hide}></audio>`;
  return html`<video controls src=${url} aria-label=${name} @error=${hide}></video>`;
}

function link({ url, isRemote }: Reference, name: string): TemplateResult {
  if (isRemote) return html`<a href=${url} target="_blank" rel="noopener noreferrer">${url.slice(0, MOST_SHOWN)}</a>`;
  return html`<a href=${url} download=${fileName(name, url)}>Download ${name}</a>
    <span class="quiet">${url.slice(5, url.search(/[;,]/))}, ${size(url)}</span>`;
}

/** Hide what cannot be shown; the link below stays. */
function hide(event: Event): void {
  (event.target as HTMLElement).hidden = true;
}

function fileName(name: string, url: string): string {
  const ending = /^data:\w+\/([\w]+)/.exec(url)?.[1] ?? 'bin';
  const plain = name.replace(/[^\w.-]/g, '_').slice(0, 80);
  return plain.includes('.') ? plain : `${plain}.${ending === 'plain' ? 'txt' : ending}`;
}

function size(url: string): string {
  const padding = /=*$/.exec(url.slice(-2))?.[0].length ?? 0;
  const bytes = Math.floor(((url.length - url.indexOf(',') - 1 - padding) * 3) / 4);
  return bytes < 10_000 ? `${bytes} bytes` : `${Math.round(bytes / 1000).toLocaleString('en')} kB`;
}
