/** The API key of this tab: typed once, kept until the tab is closed, never sent anywhere else. */

const NAME = 'cog-adapt.key';

export class Keys extends EventTarget {
  /** Why a key is wanted; null while none is. */
  wanted: string | null = null;
  private answered: Promise<void> | null = null;
  private answer: (() => void) | null = null;

  constructor(private readonly kept: Storage) {
    super();
  }

  get current(): string | null {
    return this.kept.getItem(NAME);
  }

  /** Whether the key that was given was refused. */
  get isRefused(): boolean {
    return this.current !== null;
  }

  /** Wait until a key was typed, or the question dismissed; all who ask wait for one answer. */
  ask(why: string): Promise<void> {
    if (this.answered === null) {
      this.wanted = why;
      this.answered = new Promise((resolve) => (this.answer = resolve));
      this.dispatchEvent(new Event('change'));
    }
    return this.answered;
  }

  /** Take the key that was typed; null: none was. */
  give(key: string | null): void {
    if (key) this.kept.setItem(NAME, key);
    else this.kept.removeItem(NAME);
    this.wanted = null;
    this.answered = null;
    this.answer?.();
    this.dispatchEvent(new Event('change'));
  }
}

export const keys = new Keys(sessionStorage);
