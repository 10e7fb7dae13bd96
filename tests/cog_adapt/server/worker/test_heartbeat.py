"""The worker says that it lives."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from cog_adapt.server.protocol import Beat
from cog_adapt.server.worker import heartbeat
from cog_adapt.server.worker.config import WorkerConfig
from cog_adapt.server.worker.heartbeat import Heartbeat
from tests.cog_adapt.waiting import wait_until

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
def test_it_beats_each_second_and_four_times_in_what_counts_as_a_hang(
    monkeypatch, hang_seconds, period
):
    done: list[Any] = []

    def pause(seconds):
        done.append(seconds)
        if len(done) == 5:
            threading.Event().wait()

    monkeypatch.setattr(heartbeat, "time", SimpleNamespace(sleep=pause))
    Heartbeat(done.append, WorkerConfig("x.py:X", hang_seconds=hang_seconds))
    wait_until(lambda: len(done) == 5)
    assert done == [period, Beat(), period, Beat(), period]


def test_a_loop_in_python_lets_the_beat_through_and_a_call_into_c_does_not(launch):
    front = launch(SOURCE, reference="predictor.py:Predictor", hang_seconds=0.2)
    front.run(code="self.beat = (3, 4)")
    front.beats.clear()
    front.run(code="end = time.monotonic() + 0.5\nwhile time.monotonic() < end: pass")
    assert len(front.beats) > 4
    assert front.beats[-1] == Beat(3.0, 4.0)
    front.beats.clear()
    front.run(code="ctypes.PyDLL(None).usleep(500_000)")
    assert len(front.beats) < 4


def test_its_last_words_are_that_the_process_cannot_go_on():
    beating = Heartbeat(lambda _: None, WorkerConfig("x.py:X"))
    beating.watch(lambda: Beat(2.0, 1.0))
    assert beating.last_words() == ()
    beating.watch(lambda: Beat(fatal="the card fell off"))
    assert beating.last_words() == (Beat(fatal="the card fell off"),)
