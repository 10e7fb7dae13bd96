/** Whether the server can be reached; while it cannot, looks for it again and again. */

const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 5000;

export class Connection extends EventTarget {
  isUp = true;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private pause = FIRST_PAUSE;

  constructor(private readonly look: () => Promise<boolean>) {
    super();
  }

  /** Say that an answer has come. */
  found(): void {
    clearTimeout(this.timer);
    this.pause = FIRST_PAUSE;
    if (!this.isUp) this.set(true);
  }

  /** Say that none has come. */
  lost(): void {
    if (!this.isUp) return;
    this.set(false);
    this.lookLater();
  }

  /** Wait until the server can be reached. */
  untilUp(signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    if (this.isUp) return Promise.resolve();
    return new Promise((resolve, reject) => {
      this.addEventListener('up', () => resolve(), { once: true });
      signal?.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
    });
  }

  private set(isUp: boolean): void {
    this.isUp = isUp;
    this.dispatchEvent(new Event(isUp ? 'up' : 'down'));
  }

  private lookLater(): void {
    this.timer = setTimeout(() => void this.lookAgain(), this.pause);
    this.pause = Math.min(this.pause * 1.5, LONGEST_PAUSE);
  }

  private async lookAgain(): Promise<void> {
    if (await this.look()) this.found();
    else if (!this.isUp) this.lookLater();
  }
}

async function isAlive(): Promise<boolean> {
  try {
    return (await fetch(new URL('healthz', new URL('.', document.baseURI)), { cache: 'no-store' })).ok;
  } catch {
    return false;
  }
}

export const connection = new Connection(isAlive);
