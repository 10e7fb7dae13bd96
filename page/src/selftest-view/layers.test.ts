import { expect, test } from 'vitest';
import { layersOf } from './layers';

test('parameters stand in their layer, in the order of the model', () => {
  const layers = layersOf({ 'e.layer.0.q.weight': 1, 'e.layer.0.q.bias': 1, 'e.layer.1.q.weight': 1, 'head.weight': 1, scale: 1 });
  expect(layers.map((each) => [each.name, each.cells.map((cell) => cell.parameter)])).toEqual([
    ['e.layer.0', ['q.weight', 'q.bias']],
    ['e.layer.1', ['q.weight']],
    ['head', ['weight']],
    ['(model)', ['scale']],
  ]);
});

test('heat follows the exponent of a norm', () => {
  const heat = (norm: number | null): number | null | undefined => layersOf({ 'a.b': norm })[0]?.cells[0]?.heat;
  expect(heat(1e-8)).toBe(0);
  expect(heat(1e3)).toBe(1);
  expect(heat(1e9)).toBe(1);
  expect(heat(1)).toBeCloseTo(8 / 11);
  expect(heat(0)).toBeNull();
  expect(heat(null)).toBeNull();
});
