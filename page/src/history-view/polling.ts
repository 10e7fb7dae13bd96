/** Asks again and again while an element is shown, and not while nobody looks. */
import type { ReactiveController, ReactiveControllerHost } from 'lit';
import { Unreachable } from '../api/client';
import { connection } from '../connection/connection';

export class Polling implements ReactiveController {
  problem = '';
  private timer: ReturnType<typeof setTimeout> | undefined;
  private isOn = false;

  constructor(
    private readonly host: ReactiveControllerHost,
    private readonly ask: () => Promise<void>,
    private readonly pause = 2000,
  ) {
    host.addController(this);
  }

  hostConnected(): void {
    this.isOn = true;
    document.addEventListener('visibilitychange', this.look);
    void this.turn();
  }

  hostDisconnected(): void {
    this.isOn = false;
    document.removeEventListener('visibilitychange', this.look);
    clearTimeout(this.timer);
  }

  /** Ask now, and go on as before. */
  async now(): Promise<void> {
    clearTimeout(this.timer);
    await this.turn();
  }

  /** Stop while the tab is hidden; who comes back sees what is so now. */
  private readonly look = (): void => {
    clearTimeout(this.timer);
    if (!document.hidden) void this.turn();
  };

  private async turn(): Promise<void> {
    if (document.hidden) return;
    await this.once();
    this.host.requestUpdate();
    clearTimeout(this.timer);
    if (this.isOn && !document.hidden) this.timer = setTimeout(() => void this.turn(), this.pause);
  }

  private async once(): Promise<void> {
    try {
      await this.ask();
      this.problem = '';
    } catch (error) {
      if (error instanceof Unreachable) await connection.untilUp();
      else this.problem = (error as Error).message;
    }
  }
}
