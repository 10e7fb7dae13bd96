/** Shows what an output refers to; whatever it says, it can only be a picture, a sound or a file. */
import { html, nothing, type TemplateResult } from 'lit';

export type Medium = 'image' | 'audio' | 'video' | 'file';

export interface Reference {
  medium: Medium;
  url: string;
  isRemote: boolean;
  /** Whether it is of another server, which the page only calls when the reader follows the link. */
  isElsewhere: boolean;
}

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
  return { medium, url: text, isRemote: true, isElsewhere: origin !== location.origin };
}

/** Render a text that may refer to something; null: it is no reference. */
export function mediaValue(text: string, name: string): TemplateResult | null {
  const found = referenceOf(text);
  if (found === null) return null;
  const isShown = found.medium !== 'file' && !found.isElsewhere;
  return html`<figure class="media">
    ${isShown ? player(found, name) : nothing}
    <figcaption>${link(found, name)}</figcaption>
  </figure>`;
}

function player({ medium, url }: Reference, name: string): TemplateResult {
  if (medium === 'image') return html`<img src=${url} alt=${name} @error=${hide} />`;
  if (medium === 'audio') return html`<audio controls src=${url} aria-label=${name}></audio>`;
  return html`<video controls src=${url} aria-label=${name}></video>`;
}

function link({ url, isRemote }: Reference, name: string): TemplateResult {
  if (isRemote) return html`<a href=${url} target="_blank" rel="noopener noreferrer">${url}</a>`;
  return html`<a href=${url} download=${fileName(name, url)}>Download ${name}</a>
    <span class="quiet">${url.slice(5, url.search(/[;,]/))}, ${size(url)}</span>`;
}

/** Hide a picture that cannot be shown; the link below stays. */
function hide(event: Event): void {
  (event.target as HTMLElement).hidden = true;
}

function fileName(name: string, url: string): string {
  const ending = /^data:\w+\/([\w]+)/.exec(url)?.[1] ?? 'bin';
  const plain = name.replace(/[^\w.-]/g, '_').slice(0, 80);
  return plain.includes('.') ? plain : `${plain}.${ending === 'plain' ? 'txt' : ending}`;
}

function size(url: string): string {
  const bytes = Math.round(((url.length - url.indexOf(',') - 1) * 3) / 4);
  return bytes < 10_000 ? `${bytes} bytes` : `${Math.round(bytes / 1000).toLocaleString('en')} kB`;
}
