"""The worker says that it lives."""

import queue
import time
from typing import Any

import pytest

from cog_adapt.server.protocol import Beat
from cog_adapt.server.worker.config import WorkerConfig
from cog_adapt.server.worker.heartbeat import Heartbeat
from tests.cog_adapt.server.worker.conftest import SECONDS

SOURCE = """
    import ctypes, time

    class Predictor:
        def setup(self):
            self.beat = (0.0, 0.0)

        def model_thread_beat(self):
            return self.beat

        def run(self, code: str = "") -> str:
            exec(code, {"self": self, "ctypes": ctypes, "time": time})
            return "done"
"""


@pytest.mark.parametrize(("hang_seconds", "period"), [(0, 1.0), (1, 0.25), (60, 1.0)])
def test_it_beats_each_second_and_four_times_in_what_counts_as_a_hang(hang_seconds, period):
    times: Any = queue.Queue()
    Heartbeat(
        lambda _: times.put(time.monotonic()), WorkerConfig("x.py:X", hang_seconds=hang_seconds)
    )
    first, *_, last = (times.get(timeout=SECONDS) for _ in range(3))
    assert 2 * period * 0.9 < last - first < 2 * period + 1.4


def test_a_loop_in_python_lets_the_beat_through_and_a_call_into_c_does_not(launch):
    front = launch(SOURCE, reference="predictor.py:Predictor", hang_seconds=0.2)
    front.run(code="self.beat = (3, 4)")
    front.beats.clear()
    front.run(code="end = time.monotonic() + 1\nwhile time.monotonic() < end: pass")
    assert len(front.beats) > 4
    assert front.beats[-1] == Beat(3.0, 4.0)
    front.beats.clear()
    front.run(code="ctypes.PyDLL(None).usleep(1_000_000)")
    assert len(front.beats) < 4


def test_its_last_words_are_that_the_process_cannot_go_on():
    heartbeat = Heartbeat(lambda _: None, WorkerConfig("x.py:X"))
    heartbeat.watch(lambda: Beat(2.0, 1.0))
    assert heartbeat.last_words() == ()
    heartbeat.watch(lambda: Beat(fatal="the card fell off"))
    assert heartbeat.last_words() == (Beat(fatal="the card fell off"),)
