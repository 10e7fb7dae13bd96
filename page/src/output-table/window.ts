/** Which rows of a long list are in sight. */

export const ROW_HEIGHT = 36;
const SPARE = 8;

export interface Window {
  first: number;
  end: number;
}

/** Return the rows to render, some above and below included. */
export function windowOf(scrolled: number, height: number, count: number): Window {
  const first = Math.max(0, Math.floor(scrolled / ROW_HEIGHT) - SPARE);
  const end = Math.min(count, Math.ceil((scrolled + height) / ROW_HEIGHT) + SPARE);
  return { first: Math.min(first, end), end };
}
