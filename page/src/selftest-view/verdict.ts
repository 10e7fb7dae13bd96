/** Says the result of a self-test in words: the verdict, what it rests on, and what it leaves open. */
import type { Finding, GradientReport, SelfTest } from '../api/types';
import { seconds } from '../gist/age';

export interface Verdict {
  words: string;
  /** The CSS class of its colour. */
  state: 'passed' | 'failed' | 'warned';
  /** What the verdict rests on, in a sentence. */
  basis: string;
  /** Parameters whose gradient's value was not proved. */
  unverified: string[];
  /** Checks that were left out, each with its reason. */
  leftOut: [string, string][];
}

/** Return the verdict of a report. */
export function verdictOf({ passed, level, reports }: SelfTest): Verdict {
  const words = { true: 'Gradients flow', false: 'Gradients do not flow', null: 'Not tested' }[`${passed}`];
  const state = passed === null ? 'warned' : passed ? 'passed' : 'failed';
  return { words, state, basis: basisOf(reports, level), unverified: unverifiedOf(reports), leftOut: leftOutOf(reports) };
}

function basisOf(reports: GradientReport[], level: string): string {
  const checks = reports.flatMap((each) => each.checks);
  if (checks.length === 0) return '';
  const count = (status: string): number => checks.filter((each) => each.status === status).length;
  const odd = ['failed', 'warned'].map((each) => [count(each), each] as const).filter(([many]) => many > 0);
  const done = checks.length - count('skipped');
  const result = odd.length === 0 ? `All ${done} checks passed` : `Of ${done} checks, ${odd.map(([many, each]) => `${many} ${each}`).join(' and ')}`;
  const time = seconds(reports.reduce((all, each) => all + each.seconds, 0));
  const precision = reports.find((each) => each.precision)?.precision;
  const tensors = Math.max(...reports.map((each) => Object.keys(each.gradient_norms ?? {}).length));
  return [`${result} in ${time}`, tensors > 0 && `${tensors.toLocaleString('en')} trained tensor${tensors === 1 ? '' : 's'}`, precision && `on ${precision}`, `level ${level}`]
    .filter(Boolean).join(', ') + '.';
}

function unverifiedOf(reports: GradientReport[]): string[] {
  return [...new Set(reports.flatMap((each) => each.unverified ?? []))];
}

function leftOutOf(reports: GradientReport[]): [string, string][] {
  const named = reports.flatMap((each) => Object.entries(each.left_out ?? {}));
  const skipped = reports.flatMap((each) => each.checks).filter((each) => each.status === 'skipped').map((each) => [each.name, each.reason ?? ''] as [string, string]);
  return [...new Map([...skipped, ...named]).entries()];
}

/** Return the findings that are not said above already, the failures first. */
export function findingsOf(report: GradientReport): Finding[] {
  const order = ['FAIL', 'WARN', 'NOTE'];
  const isSaid = (found: Finding): boolean => found.code === 'unverified' && found.level === 'NOTE' && (report.unverified ?? []).length > 0;
  return report.findings.filter((each) => !isSaid(each)).sort((one, other) => order.indexOf(one.level) - order.indexOf(other.level));
}
