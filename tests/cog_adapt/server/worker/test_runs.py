"""What the front process hears of a process that cannot go on."""

from types import SimpleNamespace
from typing import Any

import pytest

from cog_adapt.server.protocol import Beat, Finished, Run
from cog_adapt.server.worker.config import WorkerConfig
from cog_adapt.server.worker.runs import RunContext
from gradient_check.tests.present import NOT_USED


@pytest.mark.parametrize(
    ("status", "together"), [("failed", [Beat, Finished]), ("succeeded", [Finished])]
)
def test_that_the_process_cannot_go_on_is_heard_with_a_failure_and_before_it(status, together):
    sent: list[Any] = []
    connection: Any = SimpleNamespace(send=lambda *each: sent.append(each))
    context = RunContext(
        WorkerConfig("predict.py"),
        NOT_USED,
        NOT_USED,
        connection,
        last_words=lambda: [Beat(fatal="gone")],
    )
    context.activate(Run("p", b"{}", {})).end(status)
    assert [[type(report) for report in each] for each in sent] == [together]
