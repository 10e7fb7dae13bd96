"""What a run is made with, and cancels, which may come before their run or after its end."""

from types import SimpleNamespace

import pytest

from cog_adapt.server.protocol import Cancel, Run
from cog_adapt.server.worker.config import WorkerConfig
from cog_adapt.server.worker.runs import Cancels, RunContext, stage_name
from cog_adapt.server.worker.uploads import DataUrls, Uploads

RUN = Run("p", b"{}", {})


def context(**config):
    ends = SimpleNamespace(send=print, add=repr)
    return RunContext(WorkerConfig("predict.py", **config), None, "downloads", ends)


def test_a_prediction_reports_through_the_connection():
    active = context().activate(RUN)
    assert (active.request, active.send, active.add) == (RUN, print, repr)


def test_each_prediction_has_files_of_its_own():
    one, two = context().input_files(), context().input_files()
    assert one is not two
    assert one._downloads == "downloads"


def test_output_files_go_into_the_answer_or_below_the_upload_url():
    active = context().activate(RUN)
    assert isinstance(context().output_files(active)._destination, DataUrls)
    uploads = context(upload_url="http://h/up").output_files(active)._destination
    assert isinstance(uploads, Uploads)
    assert (uploads._url, uploads._headers) == ("http://h/up/", {"x-prediction-id": "p"})


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


def test_a_cancel_that_overtakes_its_run_is_kept_for_it():
    cancels = Cancels()
    cancels.add(Cancel("b", runs=2))
    assert not cancels.begin("a")
    assert cancels.begin("b")


def test_a_cancel_that_comes_after_the_end_does_not_hit_the_next_run_of_that_id():
    cancels = Cancels()
    cancels.begin("a")
    cancels.add(Cancel("a", runs=1))
    assert cancels._early == {}
    assert not cancels.begin("a")


def test_one_that_comes_late_while_others_have_not_begun_is_for_none_of_them():
    cancels = Cancels()
    cancels.begin("a")
    cancels.add(Cancel("a", runs=2))  # the second run is b, which is not read yet
    assert not cancels.begin("b")
    assert not cancels.begin("a")


def test_what_came_while_its_run_went_on_is_forgotten():
    cancels = Cancels()
    for number in range(1, 200, 2):
        cancels.begin(f"running {number}")
        cancels.add(Cancel(f"running {number}", runs=number + 1))  # the next one is not read yet
        cancels.begin("another")
    assert cancels._early == {}


def test_early_cancels_of_several_runs_are_each_kept():
    cancels = Cancels()
    cancels.add(Cancel("c", runs=3))
    cancels.add(Cancel("b", runs=2))
    assert [cancels.begin(each) for each in "abcb"] == [False, True, True, False]


def test_a_run_that_was_never_cancelled_runs():
    cancels = Cancels()
    assert cancels.begin("a") is False
    cancels.add(Cancel("b", runs=2))
    assert cancels.begin("b") is True
