import { expect, test } from 'vitest';
import { codeOf } from './code';

const REQUEST = {
  url: 'http://localhost:5000/predictions',
  input: { text: "it's \"odd\"\n", flag: true, none: null, list: [1, { a: [] }] },
  needsKey: false,
};

test('curl sends the request as it is, whatever quotes are in it', () => {
  expect(codeOf('curl', { ...REQUEST, input: { text: "it's" } })).toBe(
    `curl -s 'http://localhost:5000/predictions' \\
  -H 'Content-Type: application/json' -d @- <<'END'
{
  "input": {
    "text": "it's"
  }
}
END`,
  );
});

test('Python has the literals of Python', () => {
  const code = codeOf('Python', REQUEST);
  expect(code).toContain('"text": "it\'s \\"odd\\"\\n",');
  expect(code).toContain('"flag": True,');
  expect(code).toContain('"none": None,');
  expect(code).toContain('"a": [],');
});

test('JavaScript parses', () => {
  const code = codeOf('JavaScript', REQUEST);
  expect(() => new Function(`return async () => { ${code} }`)).not.toThrow();
});

test.each(['curl', 'Python', 'JavaScript'] as const)('%s names the key and does not hold it', (language) => {
  expect(codeOf(language, { ...REQUEST, needsKey: true })).toMatch(/API_KEY/);
});
