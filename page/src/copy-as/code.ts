/** Writes a request as code to paste: curl, Python or JavaScript. */
import type { Json, Values } from '../api/types';

export type Language = 'curl' | 'Python' | 'JavaScript';

export interface CodeRequest {
  url: string;
  input: Values;
  needsKey: boolean;
}

/** Return the code of a request; the key is not in it. */
export function codeOf(language: Language, request: CodeRequest): string {
  return WRITERS[language](request);
}

const WRITERS: Record<Language, (request: CodeRequest) => string> = {
  curl: ({ url, input, needsKey }) =>
    [
      `curl -s ${shellQuoted(url)} \\`,
      ...(needsKey ? ['  -H "Authorization: Bearer $API_KEY" \\'] : []),
      "  -H 'Content-Type: application/json' -d @- <<'END'",
      JSON.stringify({ input }, null, 2),
      'END',
    ].join('\n'),
  Python: ({ url, input, needsKey }) =>
    [
      'import json',
      ...(needsKey ? ['import os'] : []),
      'from urllib.request import Request, urlopen',
      '',
      `body = {"input": ${pythonOf(input, 0)}}`,
      `headers = {"Content-Type": "application/json"${needsKey ? ', "Authorization": f"Bearer {os.environ[\'API_KEY\']}"' : ''}}`,
      `request = Request(${JSON.stringify(url)}, json.dumps(body).encode(), headers)`,
      'with urlopen(request) as answer:',
      '    print(json.dumps(json.load(answer), indent=2))',
    ].join('\n'),
  JavaScript: ({ url, input, needsKey }) =>
    [
      `const answer = await fetch(${JSON.stringify(url)}, {`,
      '  method: "POST",',
      `  headers: { "Content-Type": "application/json"${needsKey ? ', Authorization: `Bearer ${process.env.API_KEY}`' : ''} },`,
      `  body: JSON.stringify(${indented(JSON.stringify({ input }, null, 2))}),`,
      '});',
      'console.log(JSON.stringify(await answer.json(), null, 2));',
    ].join('\n'),
};

function shellQuoted(text: string): string {
  return `'${text.replace(/'/g, `'\\''`)}'`;
}

function indented(text: string): string {
  return text.replace(/\n/g, '\n  ');
}

/** Return a JSON value as a literal of Python. */
function pythonOf(value: Json, depth: number): string {
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value !== 'object') return JSON.stringify(value);
  const pad = '    '.repeat(depth + 1);
  const isList = Array.isArray(value);
  const parts = isList
    ? value.map((each) => pythonOf(each, depth + 1))
    : Object.entries(value).map(([name, each]) => `${JSON.stringify(name)}: ${pythonOf(each, depth + 1)}`);
  const [open, close] = isList ? '[]' : '{}';
  if (parts.length === 0) return `${open}${close}`;
  return `${open}\n${parts.map((each) => `${pad}${each},`).join('\n')}\n${'    '.repeat(depth)}${close}`;
}
