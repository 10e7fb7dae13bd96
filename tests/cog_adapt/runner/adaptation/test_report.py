"""A report is plain values."""

import dataclasses
import json
from typing import Any

import pytest

from cog_adapt.runner.adaptation.report import AdaptationReport, HeldOut, Step


def report_of(**changes):
    values: dict[str, Any] = {
        "method": "lora",
        "trained_parameters": 10,
        "learning_rate": 0.1,
        "seed": 1,
        "precision": "cpu/fp32",
        "examples": 4,
        "held_out_examples": 2,
        "steps": (Step(1, 2, 1.5, 0.25, 0.1, 0.01), Step(2, 2, 1.0, 0.125, 0.05, 0.02, skipped=3)),
        "scores": (HeldOut(0, 2.0, 0.25), HeldOut(1, 1.0, 0.75), HeldOut(2, 1.5, 0.5)),
        "best_step": 1,
        "stop_reason": "max_steps",
        "seconds": 0.03,
    }
    return AdaptationReport(**(values | changes))


def test_the_score_after_is_that_of_the_tensors_returned():
    report = report_of()
    assert (report.held_out_before, report.held_out_after) == (0.25, 0.75)


def test_without_held_out_examples_there_are_no_scores():
    report = report_of(scores=(), best_step=2)
    assert (report.held_out_before, report.held_out_after) == (None, None)


def test_as_json_it_has_the_curves_as_lists():
    values = json.loads(json.dumps(report_of().to_json()))
    assert values["steps"] == 2
    assert values["losses"] == [1.5, 1.0]
    assert values["gradient_norms"] == [0.25, 0.125]
    assert values["skipped"] == 3
    assert values["held_out_curve"][1] == {"step": 1, "loss": 1.0, "score": 0.75}
    assert values["held_out_before"] == 0.25
    assert values["stop_reason"] == "max_steps"
    assert values["bit_for_bit"] is True


def test_curves_are_rounded_to_six_digits():
    step = Step(1, 1, 1.23456789, 0.00000149, 0.1, 0.01)
    values = report_of(steps=(step,)).to_json()
    assert values["losses"] == [1.234568]
    assert values["gradient_norms"] == [1e-6]


@pytest.mark.parametrize(
    "value", [Step(1, 1, 1.0, 1.0, 0.1, 0.1), HeldOut(1, 1.0, 1.0), report_of()]
)
def test_what_happened_cannot_be_changed(value):
    with pytest.raises(dataclasses.FrozenInstanceError):
        value.loss = value.seconds = 0.0
