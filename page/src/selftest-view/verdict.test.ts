import { expect, test } from 'vitest';
import type { GradientReport } from '../api/types';
import { findingsOf, verdictOf } from './verdict';

const check = (name: string, status: string, reason = '') => ({ name, status, reason, seconds: 0.5, numbers: {} });

function report(given: object = {}): GradientReport {
  const checks = [check('forward', 'passed'), check('start', 'skipped', 'it is large')];
  return { passed: true, precision: 'cpu/fp32', seconds: 1, checks, findings: [], gradient_norms: { a: 1 }, ...given } as GradientReport;
}

test('the verdict is words, with what it rests on and what it leaves open', () => {
  const given = report({ unverified: ['q.bias'], left_out: { start: 'it is large' } });
  expect(verdictOf({ passed: true, level: 'full', reports: [given, report({ unverified: ['q.bias'] })] })).toEqual({
    words: 'Gradients flow',
    state: 'passed',
    basis: 'All 2 checks passed in 2.0 s, 1 trained tensor, on cpu/fp32, level full.',
    unverified: ['q.bias'],
    leftOut: [['start', 'it is large']],
  });
});

test('what failed or warned is counted', () => {
  const checks = [check('a', 'failed'), check('b', 'warned'), check('c', 'passed')];
  expect(verdictOf({ passed: false, level: 'quick', reports: [report({ checks })] })).toMatchObject({
    words: 'Gradients do not flow', state: 'failed', basis: expect.stringMatching(/^Of 3 checks, 1 failed and 1 warned in/) as string,
  });
});

test('a test that is off has no verdict', () => {
  expect(verdictOf({ passed: null, level: 'off', reports: [] })).toMatchObject({ words: 'Not tested', state: 'warned', basis: '' });
});

test('failures come first, and what is unverified is said once', () => {
  const findings = [{ code: 'unverified', level: 'NOTE', message: '' }, { code: 'x', level: 'WARN', message: '' }, { code: 'y', level: 'FAIL', message: '' }];
  expect(findingsOf(report({ findings, unverified: ['q'] })).map((each) => each.code)).toEqual(['y', 'x']);
});
