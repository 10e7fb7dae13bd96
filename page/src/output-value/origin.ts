/** Where the server puts output files, as it says itself: the only other host that the page calls. */

export const files: { origin: string | null } = { origin: null };
