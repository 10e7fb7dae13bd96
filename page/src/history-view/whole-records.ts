/** Completes the records of a list whose requests or answers are too large for it. */
import { call } from '../api/client';
import type { Kind, RunRecord } from '../api/types';
import { isReference } from '../output-value/shapes';

type Whole = Pick<RunRecord, 'input' | 'output'>;

const MOST_BYTES = 4_000_000; // a request with a larger one is a sentence in the list

export class WholeRecords {
  /** By the record's id; null: it is too large, or cannot be read. */
  private readonly known = new Map<string, Whole | null>();
  private isReading = false;

  /** Return a record with what is known of it in place of its references. */
  complete(record: RunRecord): RunRecord {
    const whole = this.known.get(record.id);
    if (!whole) return record;
    const { input, output } = record;
    return { ...record, input: isReference(input) ? whole.input : input, output: isReference(output) ? whole.output : output };
  }

  /** Read the records that have references, one after the other, and forget all others; call `then` after each. */
  async read(kind: Kind, records: RunRecord[], then: () => void): Promise<void> {
    if (this.isReading) return;
    this.isReading = true;
    const listed = new Set(records.map(({ id }) => id));
    for (const id of this.known.keys()) if (!listed.has(id)) this.known.delete(id);
    try {
      for (const record of records.filter((each) => this.known.get(each.id) !== null && this.isOpen(each))) {
        this.known.set(record.id, await wholeOf(kind, record.id));
        if (this.isOpen(record)) this.known.set(record.id, null);
        then();
      }
    } finally {
      this.isReading = false;
    }
  }

  private isOpen(record: RunRecord): boolean {
    const { input, output } = this.complete(record);
    return isReference(input) || isReference(output);
  }
}

async function wholeOf(kind: Kind, id: string): Promise<Whole | null> {
  const answer = await call(`${kind}/${encodeURIComponent(id)}`);
  const isLarge = Number(answer.headers.get('content-length') ?? 0) > MOST_BYTES;
  if (!answer.ok || isLarge) {
    void answer.body?.cancel();
    return null;
  }
  const { input, output } = (await answer.json()) as RunRecord;
  return { input, output };
}
