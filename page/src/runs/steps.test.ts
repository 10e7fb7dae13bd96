import { expect, test } from 'vitest';
import { Course } from './steps';

function course(...steps: number[]): Course {
  let now = 0;
  const course = new Course(() => (now += 1000));
  for (const number of steps) {
    course.log(`step ${number}/10 loss 0.5\n`);
    course.metric('adaptation.step', number);
    course.metric('adaptation.loss', number / 10);
    course.metric('adaptation.gradient_norm', number);
  }
  return course;
}

test('each step has its loss and its gradient norm', () => {
  expect(course(1, 2).steps).toEqual([
    { number: 1, loss: 0.1, norm: 1 },
    { number: 2, loss: 0.2, norm: 2 },
  ]);
});

test('the time that is left follows from the steps so far', () => {
  expect(course(1).secondsLeft).toBeNull();
  expect(course(1, 2, 3).secondsLeft).toBe(7);
});

test('a report fills in what was not seen, and takes nothing away', () => {
  const seen = course(1, 2);
  seen.report([1], [2]);
  expect(seen.steps).toHaveLength(2);
  seen.report([3, 2, 1], [1]);
  expect(seen.steps.map((each) => [each.loss, each.norm])).toEqual([[3, 1], [2, null], [1, null]]);
});

test('a metric that is no number is left alone', () => {
  const empty = new Course();
  empty.metric('adaptation.step', 'odd');
  empty.metric('other', 1);
  expect(empty.steps).toEqual([]);
});
