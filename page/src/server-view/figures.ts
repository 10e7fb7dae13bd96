/** Writes the server's figures for people. */

const UNITS = ['bytes', 'kB', 'MB', 'GB', 'TB'];

/** Return a size in the unit that suits it. */
export function bytes(count: number): string {
  const power = Math.min(UNITS.length - 1, Math.floor(Math.log10(Math.max(1, count)) / 3));
  const value = count / 1000 ** power;
  return `${power === 0 ? value : value.toPrecision(3)} ${UNITS[power]}`;
}

/** Return the name of a number in words. */
export function words(name: string): string {
  return name.replace(/^cog_(model_)?/, '').replace(/_bytes$/, '').replace(/_/g, ' ');
}
