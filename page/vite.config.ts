import { createHash } from 'node:crypto';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { defineConfig, type Plugin } from 'vitest/config';

const ROOT = import.meta.dirname;
const BUILT = join(ROOT, '../cog_adapt/server/page');
const AT_THE_TOP = ['index.html', 'package-lock.json', 'package.json', 'tsconfig.json', 'vite.config.ts'];

/** The files that decide what is built; tests do not. */
function sources(): string[] {
  const inside = readdirSync(join(ROOT, 'src'), { recursive: true, withFileTypes: true })
    .filter((each) => each.isFile() && !each.name.endsWith('.test.ts'))
    .map((each) => relative(ROOT, join(each.parentPath, each.name)).split(sep).join('/'));
  return [...AT_THE_TOP, ...inside].sort();
}

/** Write the digest of the sources beside what is built: a test in Python compares. */
function digest(): Plugin {
  return {
    name: 'digest-of-sources',
    apply: 'build', // a run of the tests builds nothing
    closeBundle() {
      const whole = createHash('sha256');
      for (const name of sources()) {
        whole.update(`${name}\0`).update(readFileSync(join(ROOT, name))).update('\0');
      }
      writeFileSync(join(BUILT, 'sources.sha256'), `${whole.digest('hex')}\n`);
    },
  };
}

export default defineConfig({
  plugins: [digest()],
  build: {
    outDir: BUILT,
    emptyOutDir: true,
    target: 'es2022',
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
  },
  experimental: {
    // The page is at `/` and at `/playground`, perhaps behind a prefix: its files are found from both.
    renderBuiltUrl: (name, { hostType }) =>
      hostType === 'html' ? `playground/${name}` : { relative: true },
  },
  test: { environment: 'happy-dom', include: ['src/**/*.test.ts'] },
});
