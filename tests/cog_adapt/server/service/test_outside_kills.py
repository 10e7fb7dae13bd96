"""Only a SIGKILL that the kernel did not send for lack of memory is from outside."""

import asyncio
import signal
import sys

import pytest

from cog_adapt.server.service import outside_kills
from tests.cog_adapt.server.service.harness import Harness


@pytest.mark.parametrize(
    ("exit_code", "before", "now", "is_from_outside"),
    [
        (-signal.SIGKILL, 4, 4, True),
        (-signal.SIGKILL, 4, 5, False),
        (-signal.SIGKILL, None, None, False),
        (-signal.SIGKILL, 4, None, False),
        (-signal.SIGSEGV, 4, 4, False),
        (1, 4, 4, False),
        (None, 4, 4, False),
    ],
)
def test_who_killed_a_process(monkeypatch, exit_code, before, now, is_from_outside):
    monkeypatch.setattr(outside_kills, "count_memory_kills", lambda: now)
    assert outside_kills.is_from_outside(exit_code, before) is is_from_outside


@pytest.mark.skipif(sys.platform != "linux", reason="other systems count no such kills")
def test_the_kernels_counter_is_read():
    assert isinstance(outside_kills.count_memory_kills(), int)


def test_kills_that_one_prediction_outlives_do_not_make_the_worker_defunct(tmp_path):
    async def killed_three_times():
        harness = Harness(tmp_path, max_crashes=2)
        await harness.records.register()
        await harness.submit("patient", durable=False, retries=10)
        states = []
        for _ in range(3):
            harness.crash(is_from_outside=True)
            states.append(harness.dispatcher.lead.state)
            await harness.set_up_again()
        await harness.webhooks.close()
        await harness.records.close()
        return states

    assert asyncio.run(killed_three_times()) == ["crashed"] * 3
