/** Groups the gradient norms of a self-test by layer, for a map of them. */

export interface Cell {
  parameter: string;
  norm: number | null;
  /** 0 for the smallest that is healthy, 1 for the largest; null: none came. */
  heat: number | null;
}

export interface Layer {
  name: string;
  cells: Cell[];
}

const COLDEST = -8; // the self-test calls a norm below 1e-8 vanishing, and one above 1e3 exploding
const HOTTEST = 3;

/** Return the layers in the order of the model, with their parameters. */
export function layersOf(norms: Record<string, number | null>): Layer[] {
  const layers = new Map<string, Cell[]>();
  for (const [name, norm] of Object.entries(norms)) {
    const { layer, parameter } = split(name);
    layers.set(layer, [...(layers.get(layer) ?? []), { parameter, norm, heat: heatOf(norm) }]);
  }
  return [...layers].map(([name, cells]) => ({ name, cells }));
}

/** Cut a name behind its last number, which counts layers: `encoder.layer.0` and the rest. */
function split(name: string): { layer: string; parameter: string } {
  const numbered = /^(.*\.\d+)\.(.+)$/.exec(name);
  if (numbered) return { layer: numbered[1] ?? '', parameter: numbered[2] ?? '' };
  const place = name.lastIndexOf('.');
  return { layer: place < 0 ? '(model)' : name.slice(0, place), parameter: name.slice(place + 1) };
}

function heatOf(norm: number | null): number | null {
  if (norm === null || !(norm > 0)) return null;
  const heat = (Math.log10(norm) - COLDEST) / (HOTTEST - COLDEST);
  return Math.min(1, Math.max(0, heat));
}
