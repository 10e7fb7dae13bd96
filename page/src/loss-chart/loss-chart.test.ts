import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Step } from '../runs/steps';
import { found, shown } from '../testing/shown';
import type { LossChart } from './loss-chart';
import './loss-chart';

/** Stands in for a canvas: what is drawn on it in which colour. */
let strokes: { color: string; points: number }[] = [];

class Drawn {
  points = 0;
  moveTo = (): number => (this.points += 1);
  lineTo = (): number => (this.points += 1);
  arc = (): void => undefined;
  rect = (): void => undefined;
}

function surface(): CanvasRenderingContext2D {
  const known: Record<string, unknown> = {
    measureText: () => ({ width: 10 }),
    stroke: (path?: Drawn) => path && strokes.push({ color: String(known.strokeStyle), points: path.points }),
  };
  const rest = { get: (_: object, name: string) => known[name] ?? (() => undefined), set: (_: object, name: string, value: unknown) => ((known[name] = value), true) };
  return new Proxy(known, rest) as unknown as CanvasRenderingContext2D;
}

beforeEach(() => {
  strokes = [];
  vi.stubGlobal('Path2D', Drawn);
  vi.spyOn(HTMLCanvasElement.prototype, 'getContext').mockImplementation(surface as never);
  document.documentElement.style.cssText = '--loss: #111111; --norm: #222222';
});
afterEach(() => {
  document.body.replaceChildren();
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

function steps(...losses: (number | null)[]): Step[] {
  return losses.map((loss, place) => ({ number: place + 1, loss, norm: 1 + place }));
}

/** Return how many points the last line of this colour has. */
function pointsIn(color: string): number | undefined {
  return strokes.findLast((each) => each.color === color && each.points > 1)?.points;
}

test('a loss and a gradient norm are drawn for each step, also for those that come', async () => {
  const given = steps(3, 2, 1);
  const element = await shown<LossChart>('loss-chart', { steps: given, count: 3 });
  await vi.waitFor(() => expect([pointsIn('#111111'), pointsIn('#222222')]).toEqual([3, 3]));
  given.push({ number: 4, loss: 0.5, norm: 1 });
  element.count = 4;
  await vi.waitFor(() => expect([pointsIn('#111111'), pointsIn('#222222')]).toEqual([4, 4]));
  expect(element.querySelectorAll('canvas')).toHaveLength(1);
});

test('who does not see it is told how the loss went', async () => {
  const element = await shown<LossChart>('loss-chart', { steps: steps(3.14159, 2, null), count: 3 });
  const chart = found(element, '[role=img]');
  expect(chart.getAttribute('aria-label')).toBe(
    'Loss and gradient norm of 3 steps: the loss went from 3.14 to an unknown value',
  );
  element.steps = [];
  await element.updateComplete;
  expect(chart.getAttribute('aria-label')).toMatch(/no step yet$/);
});

test('another theme draws it in its colours', async () => {
  await shown<LossChart>('loss-chart', { steps: steps(3, 2), count: 2 });
  await vi.waitFor(() => expect(pointsIn('#111111')).toBe(2));
  document.documentElement.style.cssText = '--loss: #333333; --norm: #444444';
  document.dispatchEvent(new Event('theme-change'));
  await vi.waitFor(() => expect(pointsIn('#333333')).toBe(2));
});

test('one that is left is not drawn again', async () => {
  const element = await shown<LossChart>('loss-chart', { steps: steps(3, 2), count: 2 });
  await vi.waitFor(() => expect(pointsIn('#111111')).toBe(2));
  element.remove();
  expect(element.querySelector('canvas')).toBeNull();
  document.dispatchEvent(new Event('theme-change'));
  expect(element.querySelector('canvas')).toBeNull();
});
