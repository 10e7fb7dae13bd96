/** Says in sentences what an adaptation did. */
import type { Json } from '../api/types';

const ENDS: Record<string, string> = {
  max_steps: 'all steps were taken',
  budget_seconds: 'the time was over',
  early_stopping: 'the held-out score no longer rose',
  stop_after: 'the steps asked for were taken',
  fitted: 'the head was fitted without steps',
  decided: 'no steps would answer better',
};

/** Return what a report says, a sentence each; what it does not hold is not said. */
export function reportWords(report: Record<string, Json>): string[] {
  const decision = objectOf(report.decision);
  const isKnown = report.known === true;
  return [
    isKnown && 'These examples were known, so no step was taken now; this is how it had learned them.',
    basics(report),
    text(decision?.why) && `${capital(String(decision?.why))}.`,
    text(decision?.expected) && `${capital(String(decision?.expected))}.`,
    heldOut(report),
    typeof report.stop_reason === 'string' && !isKnown &&
      `It ended because ${ENDS[report.stop_reason] ?? report.stop_reason}.`,
    typeof report.started_from === 'string' && `It began from the adapter ${report.started_from}.`,
    ...warnings(report.warnings),
  ].filter((each): each is string => typeof each === 'string' && each !== '');
}

function basics(report: Record<string, Json>): string | false {
  if (typeof report.examples !== 'number') return false;
  const parts = [
    `The model adapted to ${count(report.examples, 'example')} by ${String(report.method)}`,
    number(report.trained_parameters) && `training ${number(report.trained_parameters)} parameters`,
    typeof report.steps === 'number' && report.steps > 0 && `in ${count(report.steps, 'step')}`,
    typeof report.seconds === 'number' && `in ${report.seconds.toFixed(1)} s`,
    text(report.precision) && `on ${String(report.precision)}`,
  ];
  return `${parts.filter(Boolean).join(', ')}.`;
}

function heldOut(report: Record<string, Json>): string | false {
  const { held_out_before: before, held_out_after: after } = report;
  if (typeof before !== 'number' || typeof after !== 'number') return false;
  const rows = typeof report.held_out_examples === 'number' ? count(report.held_out_examples, 'held-out example') : 'held-out examples';
  return `On ${rows} the score went from ${before.toPrecision(3)} to ${after.toPrecision(3)}.`;
}

function warnings(given: Json | undefined): string[] {
  return Array.isArray(given) ? given.map((each) => `Note: ${String(each)}.`) : [];
}

function count(value: number, noun: string): string {
  return `${value.toLocaleString('en')} ${noun}${value === 1 ? '' : 's'}`;
}

function number(value: Json | undefined): string | false {
  return typeof value === 'number' && value.toLocaleString('en');
}

function text(value: Json | undefined): boolean {
  return typeof value === 'string' && value !== '';
}

function capital(sentence: string): string {
  return sentence.charAt(0).toUpperCase() + sentence.slice(1);
}

function objectOf(value: Json | undefined): Record<string, Json> | null {
  return value && typeof value === 'object' && !Array.isArray(value) ? value : null;
}
