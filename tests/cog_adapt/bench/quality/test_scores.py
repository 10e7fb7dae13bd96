"""Scores counted by hand: accuracy, log loss, calibration, and what is said of paired splits."""

import math

import pytest
import torch
from scipy import stats

from bench.quality.scores import (
    Interval,
    Scores,
    above,
    better_of,
    calibration_error,
    differences,
    score,
    summary,
)


def scores(accuracy=0.5, log_loss=1.0, error=0.1, seconds=1.0):
    return Scores(accuracy, log_loss, error, seconds)


def test_a_run_is_scored_by_the_probability_of_the_right_label():
    probabilities = torch.tensor([[0.8, 0.2], [0.6, 0.4]], dtype=torch.float64)
    found = score(probabilities, ["a", "b"], ["a", "b"], seconds=2.0)
    assert found.accuracy == 0.5
    assert found.log_loss == pytest.approx(-(math.log(0.8) + math.log(0.4)) / 2)
    assert found.seconds == 2.0


def test_labels_may_come_in_any_order():
    probabilities = torch.tensor([[0.9, 0.1]], dtype=torch.float64)
    assert score(probabilities, ["b", "a"], ["b"], 0).accuracy == 1
    assert score(probabilities, ["a", "b"], ["b"], 0).log_loss == pytest.approx(-math.log(0.1))


def test_a_right_label_that_was_lost_counts_as_wrong_with_a_finite_loss():
    found = score(torch.tensor([[0.5, 0.5]]), ["a", "b"], ["c"], 0)
    assert found.accuracy == 0
    assert math.isfinite(found.log_loss)


def test_the_calibration_error_weighs_the_gap_of_each_bin_by_its_texts():
    """Three of four are right at .9 (a gap of .15), one of two at .5 (a gap of 0)."""
    confidences = [0.9, 0.9, 0.9, 0.9, 0.5, 0.5]
    right = [True, True, True, False, True, False]
    assert calibration_error(confidences, right) == pytest.approx(0.15 * 4 / 6)


def test_gaps_of_different_bins_do_not_cancel():
    assert calibration_error([0.9, 0.5], [False, True]) == pytest.approx((0.9 + 0.5) / 2)


def test_certainty_has_a_bin():
    assert calibration_error([1.0], [True]) == 0


def test_the_interval_is_students():
    values = [0.1, 0.2, 0.4, 0.3]
    low, high = stats.t.interval(0.95, 3, loc=0.25, scale=stats.sem(values))
    found = Interval.of(values)
    assert found.half_width is not None
    assert (found.mean - found.half_width, found.mean + found.half_width) == pytest.approx(
        (low, high)
    )


def test_one_split_allows_no_interval():
    assert str(Interval.of([0.25])) == "0.250"


def test_splits_are_paired_by_number():
    one = {0: scores(0.9, 0.5), 1: scores(0.7, 1.5), 7: scores(0.1)}
    other = {1: scores(0.6, 1.0), 0: scores(0.8, 0.7)}
    assert differences(one, other) == pytest.approx([0.1, 0.1])
    assert above(one, other) == [False, True]


def test_the_better_of_the_reference_is_chosen_by_mean_accuracy():
    row = {"lora": {0: scores(0.9), 1: scores(0.1)}, "centroid": {0: scores(0.6), 1: scores(0.6)}}
    assert better_of(row, ("lora", "centroid")) == "centroid"
    assert better_of(row, ("lora", "auto")) == "lora"
    assert better_of({}, ("lora", "centroid")) is None


def test_a_summary_compares_with_the_better_and_with_zero_shot():
    row = {
        "zero-shot": {0: scores(0.5, 1.0), 1: scores(0.5, 1.0)},
        "lora": {0: scores(0.8), 1: scores(0.6)},
        "auto": {0: scores(0.9, 0.9), 1: scores(0.7, 1.1)},
    }
    found = summary(row, "auto", ("lora", "centroid"))
    assert found["better"] == "lora"
    assert found["accuracy - better"].mean == pytest.approx(0.1)
    assert found["log loss above zero-shot's"] == 0.5
