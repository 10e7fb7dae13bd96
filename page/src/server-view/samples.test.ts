import { expect, test } from 'vitest';
import { quantile, samplesOf, valueOf } from './samples';

const TEXT = `# HELP seconds Time.
plain 3.5
used{budget="request \\"bodies\\""} 1e+06
seconds_bucket{kind="predict",le="1.0"} 8.0
seconds_bucket{kind="predict",le="2.0"} 9.0
seconds_bucket{kind="predict",le="+Inf"} 10.0
seconds_bucket{kind="train",le="1.0"} 0.0
seconds_bucket{kind="train",le="+Inf"} 0.0
none NaN
`;
const ALL = samplesOf(TEXT);

test('samples have names, labels and values', () => {
  expect(valueOf(ALL, 'plain')).toBe(3.5);
  expect(ALL[1]).toEqual({ name: 'used', labels: { budget: 'request \\"bodies\\"' }, value: 1e6 });
  expect([valueOf(ALL, 'none'), valueOf(ALL, 'absent')]).toEqual([null, null]);
});

test('a quantile lies inside its bucket, above the last at its edge, and nowhere in an empty histogram', () => {
  const of = (share: number, kind = 'predict'): number | null => quantile(ALL, 'seconds', { kind }, share);
  expect(of(0.5)).toBeCloseTo(0.625);
  expect(of(0.85)).toBeCloseTo(1.5);
  expect(of(0.99)).toBe(2);
  expect(of(0.5, 'train')).toBeNull();
});
