/** Reads the text of `/metrics`, and the quantiles of its histograms. */

export interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

/** Return the samples of a text; lines that are none are left out. */
export function samplesOf(text: string): Sample[] {
  return text.split('\n').flatMap((line) => {
    const found = LINE.exec(line);
    if (!found) return [];
    const labels = [...(found[2] ?? '').matchAll(LABEL)].map(([, name, value]) => [name, value] as const);
    return [{ name: found[1] ?? '', labels: Object.fromEntries(labels) as Record<string, string>, value: numberOf(found[3] ?? '') }];
  });
}

/** Return the value of a sample; null: it is not there, or no number. */
export function valueOf(samples: Sample[], name: string, labels: Record<string, string> = {}): number | null {
  const value = samples.find((each) => each.name === name && has(each, labels))?.value;
  return value === undefined || Number.isNaN(value) ? null : value;
}

/** Return a quantile of a histogram, as Prometheus interpolates it; null: nothing was counted. */
export function quantile(samples: Sample[], name: string, labels: Record<string, string>, share: number): number | null {
  const buckets = samples
    .filter((each) => each.name === `${name}_bucket` && has(each, labels))
    .map((each) => ({ most: numberOf(each.labels.le ?? ''), count: each.value }))
    .sort((one, other) => one.most - other.most);
  const all = buckets.at(-1)?.count ?? 0;
  if (all === 0) return null;
  const rank = share * all;
  const place = buckets.findIndex((each) => each.count >= rank);
  const [below, found] = [buckets[place - 1] ?? { most: 0, count: 0 }, buckets[place]];
  if (!found || found.most === Infinity) return below.most;
  const inside = found.count - below.count;
  return inside === 0 ? found.most : below.most + ((found.most - below.most) * (rank - below.count)) / inside;
}

function has(sample: Sample, labels: Record<string, string>): boolean {
  return Object.entries(labels).every(([name, value]) => sample.labels[name] === value);
}

function numberOf(text: string): number {
  return text === '+Inf' ? Infinity : Number(text);
}
