/** Puts the answers before, early and after beside the inputs that they are to. */
import type { Json, Values } from '../api/types';
import type { Row } from '../output-value/shapes';

export interface Answer {
  label: string;
  /** Between 0 and 1; null where the model gives none. */
  score: number | null;
}

export interface AnswerRow {
  input: string;
  answers: (Answer | null)[];
}

/** Return a row for each input; `columns` are lists of answers, some of them perhaps missing. */
export function answerRows(input: Values, columns: (Json[] | null)[]): AnswerRow[] {
  const count = Math.max(0, ...columns.map((each) => each?.length ?? 0));
  const texts = inputsOf(input, count);
  return Array.from({ length: count }, (_, place) => ({
    input: texts[place] ?? `input ${place + 1}`,
    answers: columns.map((each) => (each?.[place] === undefined ? null : answerOf(each[place]))),
  }));
}

/** Return one answer: of a class with its score, or any value as text. */
export function answerOf(value: Json): Answer {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    return { label: typeof value === 'object' ? JSON.stringify(value) : String(value), score: null };
  }
  const label = value.label;
  if (label === undefined || typeof label === 'object') return { label: JSON.stringify(value), score: null };
  const score = (value.scores as Row | undefined)?.[String(label)] ?? value.score;
  return { label: String(label), score: typeof score === 'number' ? score : null };
}

/** Return the inputs that were asked, where it can be seen which they are. */
function inputsOf(input: Values, count: number): string[] {
  const single = ['text', 'input'].map((name) => input[name]).filter((each) => typeof each === 'string' && each !== '');
  const lists = ['texts', 'inputs'].flatMap((name) => (Array.isArray(input[name]) ? (input[name] as Json[]) : []));
  const found = [...single, ...lists].map((each) => (typeof each === 'string' ? each : JSON.stringify(each)));
  return found.length === count ? found : [];
}
