/** Reads what came of a run: its answers, what a training has learnt, or why there is nothing. */
import type { Json, RunRecord } from '../api/types';
import { referenceOf } from '../output-value/media';
import { isReference, isRow, type Row } from '../output-value/shapes';

const MOST_FIELDS = 4;
const MOST_PART = 40;

export interface Answer {
  value: Json;
  /** Between 0 and 1; null where the model gives none. */
  score: number | null;
  /** Its answer before it was taught, if that was another. */
  before: string | null;
}

/** Return the answers of a run, in the order of its inputs. */
export function answersOf(output: Json | undefined): Answer[] {
  if (output === null || output === undefined) return [];
  if (!isRow(output)) return Array.isArray(output) ? joined(output) : [answerOf(output)];
  if (isReference(output)) return [];
  if (Array.isArray(output.predictions)) {
    const before = Array.isArray(output.before) ? output.before : [];
    return output.predictions.map((each, place) => answerOf(each, before[place]));
  }
  const files = Object.values(output).filter((each) => typeof each === 'string' && referenceOf(each) !== null);
  return files.length > 0 ? files.map((each) => answerOf(each)) : [answerOf(mainPart(output))];
}

/** A list of texts is one answer that came in pieces. */
function joined(output: Json[]): Answer[] {
  const isText = output.length > 0 && output.every((each) => typeof each === 'string' && !each.startsWith('data:'));
  return isText ? [answerOf(output.join(''))] : output.map((each) => answerOf(each));
}

/** Return the part of an object that is the answer, where it can be seen which it is. */
function mainPart(output: Row): Json {
  const { report: _, adapter: __, before: ___, ...parts } = output;
  const named = ['text', 'answer', 'output', 'completion'].map((name) => parts[name]);
  const filled = Object.values(parts).filter((each) => each !== null && each !== '');
  return named.find((each) => typeof each === 'string' && each !== '') ?? (filled.length === 1 ? (filled[0] ?? null) : parts);
}

function answerOf(value: Json, before?: Json): Answer {
  const read = labelOf(value);
  const was = before === undefined || before === null ? null : short(labelOf(before).value);
  return { ...read, before: was === short(read.value) ? null : was };
}

function labelOf(value: Json): { value: Json; score: number | null } {
  if (value === null || !isRow(value) || value.label === undefined) return { value, score: null };
  const label = value.label;
  const score = (isRow(value.scores ?? null) ? (value.scores as Row)[String(label)] : undefined) ?? value.score;
  return { value: label, score: typeof score === 'number' ? score : null };
}

/** Return what a training, or a prediction with examples, has learnt; empty: nothing is known. */
export function learntOf(record: RunRecord): string[] {
  const report = reportOf(record);
  if (report === null) return [];
  const losses = Array.isArray(report.losses) ? report.losses.filter((each) => typeof each === 'number') : [];
  const decision = isRow(report.decision ?? null) ? (report.decision as Row) : {};
  const [first, last] = [losses.at(0), losses.at(-1)];
  return [
    typeof decision.expected === 'string' && decision.expected.startsWith('expected') && decision.expected,
    typeof report.held_out_after === 'number' && `held-out score ${change(report.held_out_before, report.held_out_after)}`,
    losses.length > 1 && `loss ${change(first, last)} in ${losses.length.toLocaleString('en')} steps`,
  ].filter((each): each is string => typeof each === 'string');
}

function change(before: Json | undefined, after: Json | undefined): string {
  return [before, after].filter((each) => typeof each === 'number').map(digits).join(' → ');
}

function digits(value: number): string {
  return Math.abs(value) < 0.1 ? value.toPrecision(2) : value.toFixed(2);
}

function reportOf({ output, metrics }: RunRecord): Row | null {
  const adaptation = (metrics as Row | undefined)?.adaptation;
  const receipt = isRow(adaptation ?? null) ? (adaptation as Row).receipt : null;
  const found = [output as Json, receipt].map((each) => (isRow(each ?? null) ? (each as Row).report : null));
  return (found.find((each) => isRow(each ?? null)) as Row | undefined) ?? null;
}

/** Return how far a run is that has not ended. */
export function progressOf({ metrics, input, queue_position: place }: RunRecord): string {
  if (place) return `place ${place} of the queue`;
  const adaptation = (metrics as Row | undefined)?.adaptation;
  if (!isRow(adaptation ?? null)) return '';
  const { step, loss } = adaptation as Row;
  if (typeof step !== 'number') return '';
  const most = (input as Row | undefined)?.steps;
  const of = typeof most === 'number' ? ` of ${most.toLocaleString('en')}` : '';
  return `step ${step.toLocaleString('en')}${of}${typeof loss === 'number' ? `, loss ${loss.toFixed(2)}` : ''}`;
}

/** Return a value in a few words: a number with as many digits as a reader needs, a row by its first fields. */
export function short(value: Json): string {
  if (typeof value === 'number') return value.toLocaleString('en', { maximumSignificantDigits: Math.abs(value) >= 1000 ? 6 : 4 });
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (value === null || !isRow(value)) return typeof value === 'string' ? value : JSON.stringify(value);
  const fields = Object.entries(value).filter(([, part]) => part !== null);
  const words = fields.slice(0, MOST_FIELDS).map(([name, part]) => `${name} ${typeof part === 'object' ? JSON.stringify(part).slice(0, MOST_PART) : short(part).slice(0, MOST_PART)}`);
  const more = fields.length - MOST_FIELDS;
  return `${words.join(' · ')}${more > 0 ? ` · ${more} more` : ''}`;
}

/** Return a share as whole percent; what is not nothing is never shown as nothing, nor what is not all as all. */
export function percent(share: number): string {
  if (share > 0 && share < 0.005) return '<1%';
  if (share < 1 && share >= 0.995) return '>99%';
  return `${Math.round(share * 100)}%`;
}
