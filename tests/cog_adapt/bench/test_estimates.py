"""Tests what is said of estimates: how far off they are, and how often within their own error."""

import pytest

from bench.sets.rows import ROWS

pytest.importorskip("task", reason="the shipped task is not here")
estimates = pytest.importorskip("bench.estimates")


def test_a_row_says_how_far_off_its_estimates_are():
    row = estimates.row_of(
        "tickets:4", [estimates.Estimate(0.8, 0.05, 0.76), estimates.Estimate(0.6, 0.02, 0.63)]
    )

    assert (row["row"], row["splits"]) == ("tickets:4", 2)
    assert (row["expected"], row["found"]) == pytest.approx((0.7, 0.695))
    assert row["apart (rms)"] == pytest.approx((0.04**2 / 2 + 0.03**2 / 2) ** 0.5)
    assert row["error said"] == pytest.approx(0.035)
    assert (row["within one error"], row["within two"]) == (0.5, 1.0)


def test_too_little_counts_as_too_much_does():
    far = [estimates.Estimate(0.5, 0.05, 0.9), estimates.Estimate(0.9, 0.05, 0.5)]

    assert estimates.row_of("both", far)["within two"] == 0.0
    assert estimates.row_of("both", far)["apart (rms)"] == pytest.approx(0.4)


def test_every_measured_row_is_there():
    assert set(estimates.MEASURED) <= {row.name for row in ROWS}
