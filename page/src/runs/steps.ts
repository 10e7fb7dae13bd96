/** Reads the course of an adaptation out of the metrics and logs of its run. */
import type { Json } from '../api/types';

export interface Step {
  number: number;
  loss: number | null;
  norm: number | null;
}

/** The loss and gradient norm of each step that was taken, and how many there will be. */
export class Course {
  readonly steps: Step[] = [];
  total: number | null = null;
  private began: number | null = null;
  private last = 0;

  constructor(private readonly clock: () => number = () => performance.now()) {}

  /** Take a metric; others than an adaptation's change nothing. */
  metric(name: string, value: Json): void {
    if (typeof value !== 'number') return;
    if (name === 'adaptation.step') this.begin(value);
    const step = this.steps.at(-1);
    if (step && name === 'adaptation.loss') step.loss = value;
    if (step && name === 'adaptation.gradient_norm') step.norm = value;
  }

  /** Take lines of the log: `step 3/40` says how many there will be. */
  log(lines: string): void {
    const found = [...lines.matchAll(/^step \d+\/(\d+)\b/gm)].at(-1);
    if (found) this.total = Number(found[1]);
  }

  /** Take the curves of a report, where they have more than was seen live. */
  report(losses: Json | undefined, norms: Json | undefined): void {
    if (!Array.isArray(losses) || losses.length <= this.steps.length) return;
    const given = Array.isArray(norms) ? norms : [];
    const steps = losses.map((loss, index) => ({
      number: index + 1,
      loss: toNumber(loss),
      norm: toNumber(given[index]),
    }));
    this.steps.splice(0, this.steps.length, ...steps);
    this.total = steps.length;
  }

  /** Seconds until the last step, if the others take as long as those so far. */
  get secondsLeft(): number | null {
    const done = this.steps.at(-1)?.number ?? 0;
    if (this.began === null || this.total === null || done < 2) return null;
    const each = (this.last - this.began) / (done - 1) / 1000;
    return Math.max(0, (this.total - done) * each);
  }

  private begin(number: number): void {
    this.last = this.clock();
    if (this.began === null || number === 1) this.began = this.last;
    this.steps.push({ number, loss: null, norm: null });
  }
}

function toNumber(value: Json | undefined): number | null {
  return typeof value === 'number' ? value : null;
}
