import { expect, test } from 'vitest';
import { defaultsOf, fieldsOf, secretsOf, type Document, type Schema } from './fields';

function documentOf(properties: Record<string, Schema>, required: string[] = []): Document {
  const choice: Schema = { enum: ['red', 'green'], type: 'string' };
  return { components: { schemas: { Input: { properties, required }, choice } } };
}

function editorFor(schema: Schema, name = 'x'): string | undefined {
  return fieldsOf(documentOf({ [name]: schema }), 'Input')[0]?.editor;
}

test.each<[Schema, string]>([
  [{ type: 'string' }, 'text'],
  [{ type: 'integer', minimum: 0, maximum: 3 }, 'number'],
  [{ type: 'boolean' }, 'bool'],
  [{ allOf: [{ $ref: '#/components/schemas/choice' }], default: 'red' }, 'choice'],
  [{ type: 'string', format: 'uri' }, 'file'],
  [{ type: 'string', format: 'password', 'x-cog-secret': true }, 'secret'],
  [{ type: 'array', items: { type: 'string' } }, 'list'],
  [{ type: 'array', items: { type: 'object' } }, 'rows'],
  [{ type: 'array', items: { type: 'string', format: 'uri' } }, 'files'],
  [{ type: 'string', pattern: '^(auto|head)$' }, 'choice'],
  [{ type: 'string', pattern: '^(a1|[b-z]{2})' }, 'text'],
  [{ type: 'object' }, 'json'],
  [{ anyOf: [{ type: 'string' }, { type: 'integer' }] }, 'json'],
  [{ anyOf: [{ type: 'string' }, { type: 'null' }] }, 'text'],
  [{}, 'json'],
])('%o has its editor', (schema, editor) => {
  expect(editorFor(schema)).toBe(editor);
});

test('rows of examples have a table; a list of another name has not', () => {
  const rows: Schema = { anyOf: [{ type: 'string' }, { type: 'array', items: { type: 'object' } }] };
  expect(editorFor(rows, 'examples')).toBe('examples');
  expect(editorFor(rows, 'others')).toBe('json');
});

test('fields come in the order of the signature, and know what has to be there', () => {
  const document = documentOf({ b: { 'x-order': 1 }, a: { 'x-order': 0, type: 'string' } }, ['a']);
  const fields = fieldsOf(document, 'Input');
  expect(fields.map((each) => [each.name, each.isRequired])).toEqual([['a', true], ['b', false]]);
});

test('a chat has its own editor', () => {
  expect(editorFor({ type: 'array', items: { type: 'object' } }, 'messages')).toBe('chat');
});

test('a pattern of words is a choice; what else it allows is typed', () => {
  const method: Schema = { type: 'string', pattern: '^(|auto|lora|match:.{1,200})$', description: 'auto, lora or match:GLOBS' };
  const [field] = fieldsOf(documentOf({ method }), 'Input');
  expect([field?.choices, field?.isOpen, field?.description]).toEqual([['auto', 'lora'], true, '']);
});

test('a list knows how one of its items is edited', () => {
  const sizes: Schema = { type: 'array', items: { type: 'integer' } };
  expect(fieldsOf(documentOf({ sizes }), 'Input')[0]?.item?.editor).toBe('number');
});

test('defaults are what the form begins with; null is left out', () => {
  const document = documentOf({ a: { default: 1 }, b: { default: null }, c: {} });
  expect(defaultsOf(fieldsOf(document, 'Input'))).toEqual({ a: 1 });
});

test('secrets are known, in lists too', () => {
  const secret: Schema = { type: 'string', format: 'password', 'x-cog-secret': true };
  const document = documentOf({ a: secret, b: { type: 'array', items: secret }, c: { type: 'string' } });
  expect(secretsOf(fieldsOf(document, 'Input'))).toEqual(['a', 'b']);
});

test('an input of trainings has another id than that of predictions', () => {
  const schemas = { Input: { properties: { n: {} } }, TrainingInput: { properties: { n: {} } } };
  const ids = (['Input', 'TrainingInput'] as const).map((each) => fieldsOf({ components: { schemas } }, each)[0]?.id);
  expect(ids).toEqual(['input-n', 'train-input-n']);
});
