"""Cancelling a synchronous run(), at any moment."""

import os
import random
import socket
import time

import pytest

from cog_adapt.server.protocol import Finished, Log, Output
from tests.cog_adapt.server.worker.conftest import Reports, is_alive
from tests.cog_adapt.waiting import wait_until

SOURCE = """
    import subprocess, sys, threading, time
    from typing import Any, Iterator
    import cog

    class Runner(cog.BaseRunner):
        def run(self, code: str = "", file: cog.Path | None = None) -> Any:
            names = {**globals(), "self": self, "file": file}
            exec(code, names)
            return names.get("out")
"""
SPIN = "while True: pass"


@pytest.fixture(scope="module")
def model(launch):
    return launch(SOURCE, egress_allow=("127.0.0.1",))


def cancel_after_start(model, code, *, wait_for=None):
    model.start(code=code)
    heard = model.hear_until(wait_for) if wait_for else []
    model.cancel()
    return Reports(heard + model.hear_until(Finished))


def test_a_run_that_swallows_it_is_canceled_all_the_same_and_keeps_its_output(model):
    reports = cancel_after_start(
        model,
        "try:\n  print('go')\n  while True: pass\nexcept BaseException: out = [1]",
        wait_for=Log,
    )
    assert (reports.status, reports.outputs) == ("canceled", [1])


def test_a_run_that_makes_another_error_of_it_is_canceled(model):
    reports = cancel_after_start(
        model, "try:\n  print('go')\n  while True: pass\nfinally: 1 // 0", wait_for=Log
    )
    assert (reports.status, reports.error) == ("canceled", None)


def test_a_run_may_cancel_itself(model):
    assert model.run(code="raise cog.CancelationException").status == "canceled"


def test_a_generator_that_swallows_it_is_not_resumed(model):
    code = """
def numbers():
    while True:
        try:
            while True: yield 1
        except cog.CancelationException:
            pass
out = numbers()
"""
    assert cancel_after_start(model, code, wait_for=Output).status == "canceled"


def test_no_cancel_is_lost_and_none_hits_the_next_prediction(model):
    chance = random.Random(0)
    for number in range(200):
        id = f"canceled-{number}"
        model.start(id, code=SPIN if number % 2 else "for _ in range(20_000): len('a')")
        time.sleep(chance.choice([0, 0, chance.uniform(0, 0.003)]))
        model.cancel(id)
        model.start(f"next-{number}", code="out = sum(range(1000))")
        reports = Reports(model.hear_until(Finished))
        assert reports.finished.id == id
        if number % 2:
            assert reports.status == "canceled"
        assert Reports(model.hear_until(Finished)).output == sum(range(1000))


def test_a_cancel_of_one_that_waits_ends_no_program_of_the_one_that_runs(model):
    code = (
        "p = subprocess.Popen(['sleep', '100'])\nprint('started')\ntime.sleep(0.3)\n"
        "out = p.poll() is None\np.kill(); p.wait()"
    )
    model.start("first", code=code)
    model.hear_until(Log)
    model.start("second", code="print('ran')")
    model.cancel("second")
    assert Reports(model.hear_until(Finished)).output is True
    second = Reports(model.hear_until(Finished))
    assert (second.status, second.logs) == ("canceled", "")


def test_a_program_that_ignores_the_first_signal_is_killed(model):
    code = (
        "p = subprocess.Popen(['sh', '-c', 'trap \"\" TERM; echo $$ >&2; while :; do sleep 1; done'"
        "], stderr=subprocess.PIPE)\nprint(p.stderr.readline().decode(), end='')\np.wait()"
    )
    reports = cancel_after_start(model, code, wait_for=Log)
    assert reports.status == "canceled"
    wait_until(lambda: not is_alive(int(reports.logs)))


def test_a_program_from_before_the_prediction_lives_on(model):
    pid = model.run(
        code="self.kept = subprocess.Popen(['sleep', '100']); out = self.kept.pid"
    ).output
    cancel_after_start(model, SPIN)
    cancel_after_start(
        model, "p = subprocess.Popen(['sleep', '100']); print(p.pid); p.wait()", wait_for=Log
    )
    assert is_alive(pid)
    assert model.run(code="self.kept.kill(); self.kept.wait()").status == "succeeded"


def test_files_are_removed_after_a_failure_too(model):
    logs = model.run(file="data:text/plain,x", code="print(file)\n1 // 0").logs
    path = logs.partition("\n")[0]
    assert path.endswith("file.txt")
    assert not os.path.exists(path)


def test_a_download_is_not_waited_for(model):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        model.start(file=f"http://127.0.0.1:{silent.getsockname()[1]}/", code="print('ran')")
        connection, _ = silent.accept()
        began = time.monotonic()
        model.cancel()
        reports = Reports(model.hear_until(Finished))
        assert time.monotonic() - began < 8  # a download times out after 10 s
        assert (reports.status, reports.logs) == ("canceled", "")
        connection.close()
