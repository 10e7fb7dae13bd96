/** Says in a reader's words why a run failed, and at which input the reason stands. */
import type { Json, Values } from '../api/types';

export interface Fault {
  /** The input that it is about; null: none in particular. */
  field: string | null;
  message: string;
}

/** Return a failure without the names of the server's functions and exceptions. */
export function plainError(error: string): string {
  const inside = error.replace(/^((Async )?(prediction|training) failed: )+/i, '');
  const isOfServer = inside !== error;
  return isOfServer ? capital(inside.replace(/^[A-Z]\w+: /, '')) : error;
}

/** Return a failure with its input: one that the failure's sentence begins with. */
export function faultOf(error: string, input: Values): Fault {
  const message = plainError(error);
  const quoted = /^`(\w+)`: /.exec(message);
  if (quoted?.[1]) return { field: quoted[1], message: capital(message.slice(quoted[0].length)) };
  const first = /^(\w+) /.exec(message)?.[1]?.toLowerCase();
  return { field: first !== undefined && typeof input[first] === 'string' && input[first] !== '' ? first : null, message };
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
