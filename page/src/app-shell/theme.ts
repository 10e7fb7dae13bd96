/** Light, dark, or as the system has it; kept for the next visit where the browser keeps things. */

export type Theme = 'system' | 'light' | 'dark';

const NAME = 'cog-adapt.theme';
const NEXT: Record<Theme, Theme> = { system: 'dark', dark: 'light', light: 'system' };

/** Return the theme that was chosen last. */
export function chosenTheme(): Theme {
  const kept = localStorage.getItem(NAME);
  return kept === 'light' || kept === 'dark' ? kept : 'system';
}

/** Choose the next theme, and show it. */
export function nextTheme(theme: Theme): Theme {
  const next = NEXT[theme];
  localStorage.setItem(NAME, next);
  showTheme(next);
  return next;
}

/** Show a theme; charts draw themselves again. */
export function showTheme(theme: Theme): void {
  const root = document.documentElement;
  if (theme === 'system') delete root.dataset.theme;
  else root.dataset.theme = theme;
  document.dispatchEvent(new Event('theme-change'));
}
