"""A step is a line of log and three metrics; the outcome of a stream is two more."""

from types import SimpleNamespace
from typing import Any

from cog_adapt.runner.adaptation.memory_estimate import Waiting
from cog_adapt.runner.adaptation.report import Step
from cog_adapt.runner.requests.progress import Progress

STEP = Step(3, 40, 0.51234, 1.0, 0.001, 2.0)


def scope_into(recorded):
    return SimpleNamespace(context={}, record_metric=lambda *pair: recorded.append(pair))


def test_a_step_is_printed_and_recorded(capsys):
    recorded: list[Any] = []
    Progress(scope_into(recorded)).show_step(STEP)
    assert capsys.readouterr().out == "step 3/40 loss 0.5123\n"
    assert recorded == [
        ("adaptation.step", 3),
        ("adaptation.loss", 0.51234),
        ("adaptation.gradient_norm", 1.0),
    ]


def test_what_became_of_it_is_recorded():
    recorded: list[Any] = []
    progress = Progress(scope_into(recorded))
    progress.show_outcome("0123", {"steps": 3})
    assert recorded == [("adaptation.adapter", "0123"), ("adaptation.report", {"steps": 3})]
    progress.show_outcome(None, None)
    assert len(recorded) == 2


def test_without_a_recorder_a_step_is_only_printed(capsys):
    Progress().show_step(STEP)
    Progress().show_outcome("0123", None)
    assert capsys.readouterr().out.startswith("step 3/40")


def test_an_adaptation_that_waits_says_for_what(capsys):
    Progress().show(Waiting("waits for memory: it needs 2 GB"))
    assert capsys.readouterr().out == "the adaptation waits for memory: it needs 2 GB\n"
