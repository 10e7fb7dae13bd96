/** Renders an element again when its run has changed, once a frame at most. */
import type { ReactiveController, ReactiveControllerHost } from 'lit';
import type { Run } from './run';

export class Watching implements ReactiveController {
  run: Run | null = null;
  /** Grows with each change that was seen. */
  version = 0;
  private isDue = false;

  constructor(private readonly host: ReactiveControllerHost) {
    host.addController(this);
  }

  /** Watch this run from now on. */
  watch(run: Run | null): void {
    this.run?.removeEventListener('change', this.note);
    this.run = run;
    run?.addEventListener('change', this.note);
    this.show();
  }

  hostDisconnected(): void {
    this.run?.removeEventListener('change', this.note);
  }

  private readonly note = (): void => {
    if (this.isDue) return;
    this.isDue = true;
    if (document.hidden || this.run?.isOver) queueMicrotask(this.show);
    else requestAnimationFrame(this.show);
  };

  private readonly show = (): void => {
    this.isDue = false;
    this.version += 1;
    this.host.requestUpdate();
  };
}
