/** Says in a reader's words why a run failed, and at which input the reason stands. */
import type { Json, Values } from '../api/types';

export interface Fault {
  /** The input that it is about; null: none in particular. */
  field: string | null;
  message: string;
}

/** Return a failure without the names of the server's functions and exceptions, and without marks of code. */
export function plainError(error: string): string {
  const said = ofServer(error);
  return said === null ? error : capital(said.replace(/`(\w+)`/g, '$1'));
}

/** Return a failure with its input: one that its sentence begins with, or the first that it marks as a name. */
export function faultOf(error: string, input: Values, fields: string[]): Fault {
  const message = ofServer(error) ?? error;
  const quoted = /^`(\w+)`: /.exec(message);
  if (quoted?.[1]) return { field: quoted[1], message: capital(plainError(error).replace(/^\w+: /, '')) };
  const first = /^(\w+) /.exec(message)?.[1]?.toLowerCase() ?? '';
  const isGiven = typeof input[first] === 'string' && input[first] !== '';
  const marked = [...message.matchAll(/`(\w+)`/g)].map(([, name = '']) => name).find((each) => fields.includes(each));
  return { field: isGiven ? first : (marked ?? null), message: plainError(error) };
}

/** Return what the server says of a failed run, without the names that it begins with; null: another has said it. */
function ofServer(error: string): string | null {
  const inside = error.replace(/^((Async )?(prediction|training) failed: )+/i, '');
  return inside === error ? null : inside.replace(/^[A-Z]\w+: /, '');
}

function capital(text: string): string {
  return text.replace(/^./, (first) => first.toUpperCase());
}

/** Return what is wrong with an input without the pattern that it is checked by. */
export function plainProblem(message: string, choices: Json[]): string {
  const given = /^(.+) does not match ".*"$/s.exec(message)?.[1];
  if (given === undefined) return message;
  return choices.length > 0 ? `${given} is none of ${choices.join(', ')}.` : `${given} does not have the form that is needed here.`;
}
