/** Reads what a predictor says of its inputs: one field each, in its order, with its editor. */
import type { Json, Values } from '../api/types';

export interface Schema {
  type?: string;
  format?: string;
  title?: string;
  description?: string;
  default?: Json;
  enum?: Json[];
  items?: Schema;
  allOf?: Schema[];
  anyOf?: Schema[];
  oneOf?: Schema[];
  $ref?: string;
  nullable?: boolean;
  deprecated?: boolean;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  'x-order'?: number;
  'x-cog-secret'?: boolean;
  'x-cog-array-display'?: string;
}

export interface Document {
  paths?: Record<string, Record<string, { 'x-cog-streaming'?: boolean }>>;
  components?: { schemas?: Record<string, Schema> };
}

export type Editor =
  | 'text'
  | 'number'
  | 'bool'
  | 'choice'
  | 'file'
  | 'secret'
  | 'list'
  | 'json'
  | 'files'
  | 'rows'
  | 'chat'
  | 'examples';

export interface Field {
  name: string;
  /** Of its element: a name may be in the form of predictions and in that of trainings. */
  id: string;
  label: string;
  description: string;
  editor: Editor;
  isRequired: boolean;
  isDeprecated: boolean;
  isWhole: boolean;
  default: Json | undefined;
  choices: Json[];
  /** Whether texts beside the choices are allowed too. */
  isOpen?: boolean;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  /** Of a list: how one of its items is edited. */
  item?: Field;
  /** Whether it is an item of a list itself, whose name is no input's. */
  isItem?: boolean;
}

/** Return the fields of the inputs of predictions or trainings. */
export function fieldsOf(document: Document, component: 'Input' | 'TrainingInput'): Field[] {
  const schemas = document.components?.schemas ?? {};
  const inputs = schemas[component];
  const required = new Set(inputs?.required ?? []);
  return Object.entries(inputs?.properties ?? {})
    .sort(([, one], [, other]) => (one['x-order'] ?? 0) - (other['x-order'] ?? 0))
    .map(([name, schema]) => ({
      ...toField(name, schema, schemas, required.has(name)),
      id: `${component === 'Input' ? '' : 'train-'}input-${name}`,
    }));
}

/** Return the names of the inputs that are secrets, or lists of them. */
export function secretsOf(fields: Field[]): string[] {
  return fields.filter((each) => (each.item ?? each).editor === 'secret').map((each) => each.name);
}

/** Return what the form holds before anything is typed. */
export function defaultsOf(fields: Field[]): Values {
  const given = fields.filter((each) => each.default !== undefined && each.default !== null);
  return Object.fromEntries(given.map((each) => [each.name, each.default as Json]));
}

function toField(
  name: string,
  given: Schema,
  schemas: Record<string, Schema>,
  isRequired: boolean,
): Field {
  const schema = resolved(given, schemas);
  const closed = schema.enum ? null : choicesOf(schema.pattern);
  const editor = closed ? 'choice' : editorOf(name, schema);
  return {
    name,
    id: `input-${name}`,
    label: given.title ?? words(name),
    description: closed?.choices.every((each) => given.description?.includes(each)) ? '' : (given.description ?? ''), // the choices say it
    editor,
    isRequired,
    isDeprecated: given.deprecated ?? false,
    isWhole: schema.type === 'integer',
    default: given.default,
    choices: schema.enum ?? closed?.choices ?? [],
    isOpen: closed?.isOpen ?? false,
    minimum: schema.minimum,
    maximum: schema.maximum,
    minLength: schema.minLength,
    maxLength: schema.maxLength,
    pattern: schema.pattern,
    item: editor === 'list' ? toField(name, schema.items ?? {}, schemas, true) : undefined,
  };
}

/** Follow references, and take `null` out of a choice of types. */
function resolved(schema: Schema, schemas: Record<string, Schema>): Schema {
  if (schema.$ref) return resolved(schemas[schema.$ref.split('/').pop() ?? ''] ?? {}, schemas);
  if (schema.allOf?.length === 1) return { ...schema, ...resolved(schema.allOf[0] ?? {}, schemas) };
  const some = (schema.anyOf ?? schema.oneOf ?? []).filter((each) => each.type !== 'null');
  return some.length === 1 ? { ...schema, ...resolved(some[0] ?? {}, schemas) } : schema;
}

function editorOf(name: string, schema: Schema): Editor {
  const some = schema.anyOf ?? schema.oneOf ?? [schema];
  if (name === 'examples' && some.some(isListOfObjects)) return 'examples';
  if (schema.enum) return 'choice';
  if (schema['x-cog-secret'] || schema.format === 'password') return 'secret';
  if (schema.type === 'string') return schema.format === 'uri' ? 'file' : 'text';
  if (schema.type === 'integer' || schema.type === 'number') return 'number';
  if (schema.type === 'boolean') return 'bool';
  const isPlain = ['string', 'integer', 'number', 'boolean'].includes(schema.items?.type ?? '');
  if (schema.type === 'array' && schema.items?.format === 'uri') return 'files';
  if (isListOfObjects(schema)) return name === 'messages' ? 'chat' : 'rows';
  return schema.type === 'array' && (isPlain || schema.items?.$ref || schema.items?.allOf)
    ? 'list'
    : 'json';
}

/** Return the words that a pattern such as `^(auto|head|match:.+)$` allows; null: it is no choice of words. */
export function choicesOf(pattern: string | undefined): { choices: string[]; isOpen: boolean } | null {
  const inside = /^\^\((?:\?:)?([^()]*)\)\$$/.exec(pattern ?? '')?.[1];
  if (inside === undefined) return null;
  const parts = inside.split('|').filter((each) => each !== '');
  const choices = parts.filter((each) => /^[\w-]+$/.test(each));
  return choices.length > 1 ? { choices, isOpen: choices.length < parts.length } : null;
}

function isListOfObjects(schema: Schema): boolean {
  return schema.type === 'array' && schema.items?.type === 'object';
}

function words(name: string): string {
  return name.replace(/_/g, ' ').replace(/^./, (first) => first.toUpperCase());
}
