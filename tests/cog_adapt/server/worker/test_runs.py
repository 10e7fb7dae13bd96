"""What a run is made with."""

from types import SimpleNamespace
from typing import Any

import pytest

from cog_adapt.server.protocol import Beat, Finished, Log, Run
from cog_adapt.server.worker.config import WorkerConfig
from cog_adapt.server.worker.downloads import Downloads
from cog_adapt.server.worker.runs import RunContext, stage_name
from gradient_check.tests.present import NOT_USED

RUN = Run("p", b"{}", {})


def context(send=print, last_words=tuple, **config):
    ends: Any = SimpleNamespace(send=send)
    made = WorkerConfig("predict.py", **config)
    given = (made, NOT_USED, Downloads(made), ends)
    return RunContext(*given, last_words=last_words)


def test_a_prediction_reports_through_the_connection():
    sent: list[Any] = []
    active = context(send=sent.append).activate(RUN)
    active.send(Log("p", "stdout", "a line"))
    active.end("failed", "no")
    assert active.request == RUN
    assert [type(report) for report in sent] == [Log, Finished]


@pytest.mark.parametrize(
    ("status", "together"), [("failed", [Beat, Finished]), ("succeeded", [Finished])]
)
def test_that_the_process_cannot_go_on_is_heard_with_a_failure_and_before_it(status, together):
    sent: list[Any] = []
    made = context(send=lambda *each: sent.append(each), last_words=lambda: [Beat(fatal="gone")])
    made.activate(RUN).end(status)
    assert [[type(report) for report in each] for each in sent] == [together]


def test_each_prediction_has_files_of_its_own():
    one, two = context().input_files(), context().input_files()
    assert one is not two


@pytest.mark.parametrize(
    ("kind", "is_async", "name"),
    [
        ("predict", False, "Prediction failed"),
        ("train", False, "Training failed"),
        ("predict", True, "Async prediction failed"),
        ("train", True, "Async training failed"),
    ],
)
def test_a_failure_is_called_by_what_ran(kind, is_async, name):
    assert stage_name(kind, is_async=is_async) == name


def test_a_failure_is_no_async_one_unless_said():
    assert stage_name("predict") == "Prediction failed"
