"""What a run is made with."""

from types import SimpleNamespace
from typing import Any

import pytest

from cog_adapt.server.protocol import Run
from cog_adapt.server.worker.config import WorkerConfig
from cog_adapt.server.worker.runs import RunContext, stage_name
from cog_adapt.server.worker.uploads import DataUrls, Uploads
from tests.cog_adapt.present import NOT_USED

RUN = Run("p", b"{}", {})


def context(**config):
    ends: Any = SimpleNamespace(send=print)
    downloads: Any = "downloads"
    return RunContext(WorkerConfig("predict.py", **config), NOT_USED, downloads, ends)


def test_a_prediction_reports_through_the_connection():
    active = context().activate(RUN)
    assert (active.request, active.send) == (RUN, print)


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
