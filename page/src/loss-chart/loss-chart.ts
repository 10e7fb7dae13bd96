import { html, type PropertyValues, type TemplateResult } from 'lit';
import { customElement, property } from 'lit/decorators.js';
import uPlot from 'uplot';
import { LightElement } from '../light/light-element';
import type { Step } from '../runs/steps';

const HEIGHT = 190;
const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000]; // no step is half a step

/** The loss and the gradient norm of each step; it grows while they come. */
@customElement('loss-chart')
export class LossChart extends LightElement {
  @property({ attribute: false }) steps: readonly Step[] = [];
  /** How many of the steps there are to draw: the list itself grows in place. */
  @property({ type: Number }) count = 0;
  private plot: uPlot | null = null;
  private readonly resized = new ResizeObserver(() => this.fit());
  private readonly scheme = matchMedia('(prefers-color-scheme: dark)');
  private readonly redraw = (): void => this.draw();

  override connectedCallback(): void {
    super.connectedCallback();
    this.scheme.addEventListener('change', this.redraw);
    document.addEventListener('theme-change', this.redraw);
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.scheme.removeEventListener('change', this.redraw);
    document.removeEventListener('theme-change', this.redraw);
    this.resized.disconnect();
    this.plot?.destroy();
    this.plot = null;
  }

  override render(): TemplateResult {
    return html`
      <div class="chart" role="img" aria-label=${this.summary}></div>
      <p class="legend" aria-hidden="true">
        <span class="key loss"></span>loss <span class="key norm"></span>gradient norm
      </p>
    `;
  }

  override updated(changed: PropertyValues<this>): void {
    if (!this.plot) this.draw();
    else if (changed.has('count') || changed.has('steps')) this.plot.setData(this.columns());
  }

  private get summary(): string {
    const [first, last] = [this.steps[0], this.steps.at(-1)];
    if (!first || !last) return 'Loss and gradient norm of each step: no step yet';
    return `Loss and gradient norm of ${this.steps.length} steps: the loss went from ${said(first.loss)} to ${said(last.loss)}`;
  }

  private columns(): uPlot.AlignedData {
    return [
      this.steps.map((_, place) => place + 1),
      this.steps.map((each) => each.loss),
      this.steps.map((each) => each.norm),
    ];
  }

  private draw(): void {
    const place = this.querySelector<HTMLElement>('.chart');
    if (!place) return;
    this.plot?.destroy();
    this.plot = new uPlot(options(place.clientWidth || 300), this.columns(), place);
    this.resized.observe(place);
  }

  private fit(): void {
    const width = this.querySelector<HTMLElement>('.chart')?.clientWidth;
    if (this.plot && width && width !== this.plot.width) this.plot.setSize({ width, height: HEIGHT });
  }
}

function options(width: number): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const color = (name: string): string => style.getPropertyValue(name).trim();
  const axis = { stroke: color('--text'), grid: { stroke: color('--line') }, ticks: { stroke: color('--line') } };
  const few = { points: { show: (plot: uPlot) => (plot.data[0]?.length ?? 0) < 60 } };
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    scales: { x: { time: false }, norm: {} },
    series: [
      {},
      { label: 'loss', stroke: color('--loss'), width: 2, ...few },
      { label: 'gradient norm', stroke: color('--norm'), width: 1.5, dash: [5, 4], scale: 'norm', ...few },
    ],
    axes: [
      { ...axis, label: 'step', labelSize: 18, size: 34, incrs: WHOLE },
      { ...axis, size: 56 },
      { ...axis, scale: 'norm', side: 1, size: 56, grid: { show: false } },
    ],
  };
}

function said(value: number | null): string {
  return value === null ? 'an unknown value' : value.toPrecision(3);
}
