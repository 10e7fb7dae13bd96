/** Which row of the examples a sentence is about. */
import type { Row } from '../output-value/shapes';

/** Return problems by row (0 for the first) out of what a run said when it refused the examples. */
export function problemsByRow(error: string): Map<number, string> {
  const found = error.matchAll(/^\s*row (\d+): (.+)$/gm);
  return new Map([...found].map(([, place, said]) => [Number(place) - 1, said ?? '']));
}

/** Return the first empty cells, which no model can learn from. */
export function emptyCells(rows: Row[], columns: string[], most = 20): Map<number, string> {
  const found = new Map<number, string>();
  for (const [place, row] of rows.entries()) {
    const empty = columns.filter((each) => String(row[each] ?? '').trim() === '');
    if (empty.length > 0) found.set(place, `${empty.join(' and ')}: empty`);
    if (found.size === most) break;
  }
  return found;
}
