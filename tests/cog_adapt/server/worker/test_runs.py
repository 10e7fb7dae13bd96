"""What a run is made with."""

from types import SimpleNamespace
from typing import Any

import pytest

from cog_adapt.server.protocol import Beat, Finished, Run
from cog_adapt.server.worker.config import WorkerConfig
from cog_adapt.server.worker.runs import RunContext
from gradient_check.tests.present import NOT_USED

RUN = Run("p", b"{}", {})


def context(send=print, last_words=tuple, **config):
    ends: Any = SimpleNamespace(send=send)
    downloads: Any = "downloads"
    given = (WorkerConfig("predict.py", **config), NOT_USED, downloads, ends)
    return RunContext(*given, last_words=last_words)


@pytest.mark.parametrize(
    ("status", "together"), [("failed", [Beat, Finished]), ("succeeded", [Finished])]
)
def test_that_the_process_cannot_go_on_is_heard_with_a_failure_and_before_it(status, together):
    sent: list[Any] = []
    made = context(send=lambda *each: sent.append(each), last_words=lambda: [Beat(fatal="gone")])
    made.activate(RUN).end(status)
    assert [[type(report) for report in each] for each in sent] == [together]
