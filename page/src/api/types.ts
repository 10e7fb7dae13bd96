/** The server's words, from its own document; the two that it leaves open, from `docs/page-api.md`. */
import type { components } from './schema';

type Schemas = components['schemas'];

export type RunRecord = Schemas['MirrorRun'];
export type RunPage = Schemas['MirrorPage'];
export type Status = RunRecord['status'];
export type Adapter = Schemas['MirrorAdapter'];
export type AdapterPage = Schemas['MirrorAdapterPage'];
export type ServerFigures = Schemas['MirrorServerFigures'];
export type WorkerFigures = Schemas['MirrorWorkerFigures'];
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type Values = Record<string, Json>;
/** Which of the two is run; also the first part of its path. */
export type Kind = 'predictions' | 'trainings';

export type ExampleRequest = Omit<Schemas['MirrorExampleRequest'], 'input'> & { input: Values };

export interface Health {
  status: string;
  setup?: { status?: string; logs?: string };
  user_healthcheck_error?: string;
}

export interface Check {
  name: string;
  status: 'passed' | 'warned' | 'failed' | 'skipped';
  seconds: number;
  numbers: Record<string, number>;
  reason?: string;
}

export interface Finding {
  code: string;
  level: 'FAIL' | 'WARN' | 'NOTE';
  message: string;
  parameters?: string[];
  module?: string | null;
  line?: string | null;
}

export interface GradientReport {
  passed: boolean;
  precision: string;
  seconds: number;
  checks: Check[];
  findings: Finding[];
  gradient_norms: Record<string, number | null>;
  unverified?: string[];
  left_out?: Record<string, string>;
}

export interface SelfTest {
  passed: boolean | null;
  level: string;
  detail?: string;
  reports: GradientReport[];
}
