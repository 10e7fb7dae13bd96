"""The goals of a contestant: each is met at its limit, and missed beyond it."""

import pytest

from bench.quality.goals import accuracy, all_splits, calibration, goals_of, log_loss
from bench.quality.scores import Scores
from bench.sets.rows import Row

ROW = Row("tickets", 8)


def scores(accuracy=0.5, log_loss=1.0, error=0.1):
    return {0: Scores(accuracy, log_loss, error, 1.0)}


@pytest.mark.parametrize(("reached", "met"), [(0.79, True), (0.78, False)])
def test_accuracy_may_lie_015_below_the_better_of_lora_and_centroid(reached, met):
    row = {"lora": scores(0.8), "centroid": scores(0.7), "auto": scores(reached)}
    verdict = accuracy(ROW, row, "auto")
    assert verdict is not None
    assert verdict.met is met


@pytest.mark.parametrize(("reached", "met"), [(1.0, True), (1.01, False)])
def test_the_log_loss_may_not_lie_above_zero_shots(reached, met):
    row = {"zero-shot": scores(log_loss=1.0), "auto": scores(log_loss=reached)}
    verdict = log_loss(ROW, row, "auto")
    assert verdict is not None
    assert verdict.met is met


@pytest.mark.parametrize(("reached", "met"), [(0.08, True), (0.081, False)])
def test_the_calibration_error_is_at_most_08(reached, met):
    verdict = calibration(ROW, {"auto": scores(error=reached)}, "auto")
    assert verdict is not None
    assert verdict.met is met


@pytest.mark.parametrize("row", [Row("tickets", 1), Row("tickets", 16, rare=2)])
def test_calibration_is_not_judged_with_fewer_than_four_examples_a_label(row):
    assert calibration(row, {"auto": scores(error=0.5)}, "auto") is None


def test_without_those_to_compare_with_there_is_no_verdict():
    row = {"auto": scores()}
    assert accuracy(ROW, row, "auto") is None
    assert log_loss(ROW, row, "auto") is None
    assert all_splits({"tickets:8": row}, "auto") is None


@pytest.mark.parametrize(("bad", "met"), [(1, True), (2, False)])
def test_two_splits_in_a_hundred_of_all_rows_may_be_worse_than_zero_shot(bad, met):
    """One of 50 is 2 %."""
    good_splits = {n: Scores(0.5, 0.5, 0.1, 1.0) for n in range(50 - bad)}
    bad_splits = {n: Scores(0.5, 1.5, 0.1, 1.0) for n in range(bad)}
    zero = {n: Scores(0.5, 1.0, 0.1, 1.0) for n in range(50)}
    results = {
        "tickets:8": {"zero-shot": zero, "auto": good_splits},
        "tickets:4": {"zero-shot": zero, "auto": bad_splits},
    }
    verdict = all_splits(results, "auto")
    assert verdict is not None
    assert verdict.met is met


def test_the_table_names_the_rows_that_miss_a_goal():
    other = Row("tickets", 4)
    results = {
        ROW.name: {"lora": scores(0.8), "auto": scores(0.8, error=0.01)},
        other.name: {"lora": scores(0.8), "auto": scores(0.7, error=0.01)},
    }
    report = goals_of([ROW, other], results, "auto")
    assert report.settings["rows that miss a goal"] == other.name
    assert len(report.rows) == 2
