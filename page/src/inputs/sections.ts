/** Sorts the inputs of a predictor by what they are for: what is asked, what is taught, and settings. */
import type { Field } from './fields';

export interface Sections {
  ask: Field[];
  teach: Field[];
  /** Other ways to teach: a file of examples, an earlier adapter. */
  sources: Field[];
  settings: Field[];
}

const MANY = 8;
const SOURCES = ['examples_file', 'adapter', 'weights'];

/** Return the sections of a form; without an input named `examples` nothing is taught. */
export function sectionsOf(fields: Field[]): Sections {
  if (!fields.some((each) => each.editor === 'examples')) {
    const settings = fields.length > MANY ? fields.filter(isSetting) : [];
    return { ask: fields.filter((each) => !settings.includes(each)), teach: [], sources: [], settings };
  }
  const sections: Sections = { ask: [], teach: [], sources: [], settings: [] };
  for (const field of fields) sections[sectionOf(field, sections)].push(field);
  return sections;
}

function sectionOf(field: Field, sofar: Sections): keyof Sections {
  if (field.editor === 'examples' || (field.name === 'method' && field.editor === 'choice')) return 'teach';
  if (SOURCES.includes(field.name)) return 'sources';
  const isAfterSettings = sofar.settings.length > 0 && !field.isRequired;
  return isSetting(field) || isAfterSettings ? 'settings' : 'ask';
}

function isSetting(field: Field): boolean {
  const isSmall = ['number', 'bool', 'choice'].includes(field.editor);
  return field.isDeprecated || (isSmall && !field.isRequired);
}
