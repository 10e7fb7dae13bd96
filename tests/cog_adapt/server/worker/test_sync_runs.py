"""A synchronous run() in a real model process."""

import multiprocessing

import pytest

from cog_adapt.server.protocol import Log, Metric

SOURCE = """
    import sys
    import threading
    import time
    from typing import Any
    import cog

    class Runner(cog.BaseRunner):
        def setup(self):
            self.setup_thread = threading.get_ident()

        def run(self, code: str) -> Any:
            names = {**globals(), "self": self}
            exec(code, names)
            return names.get("out")
"""


@pytest.fixture(scope="module")
def model(launch):
    return launch(SOURCE)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("raise KeyboardInterrupt", "Prediction failed: Prediction failed: KeyboardInterrupt: "),
        (
            "class Odd(Exception):\n def __str__(self): raise RuntimeError\nraise Odd",
            "Prediction failed: Prediction failed: Odd: <exception str() failed>",
        ),
        (
            "def f():\n class Inner(Exception): pass\n raise Inner('x')\nf()",
            "Prediction failed: Prediction failed: f.<locals>.Inner: x",
        ),
        (
            "raise ValueError('\\ud800')",
            "Prediction failed: Prediction failed: ValueError: \\ud800",
        ),
        (
            "out = b'x'",
            "Prediction failed: Failed to serialize output: "
            "TypeError: Object of type bytes is not JSON serializable",
        ),
        (
            "out = (b'x' for _ in 'a')",
            "Prediction failed: Failed to serialize output item: "
            "TypeError: Object of type bytes is not JSON serializable",
        ),
    ],
)
def test_a_failure_is_told_in_coglets_words_and_the_next_run_succeeds(model, code, error):
    assert model.run(code=code).error == error
    assert model.run(code="out = 1").output == 1


def test_a_lone_surrogate_is_printed_as_its_escape(model):
    assert model.run(code="print('a\\ud800')").logs == "a\\ud800\n"


def test_the_users_processes_start_as_they_do_without_this_server(model):
    reports = model.run(code="import multiprocessing\nout = multiprocessing.get_start_method()")
    default = multiprocessing.get_all_start_methods()[0]  # documented to be the default
    assert reports.output == default


def test_a_progress_bar_is_seen_when_it_is_flushed(model):
    reports = model.run(code="print('50%', end='\\r', flush=True)\nout = [1]\nprint('100%')")
    assert [each.data for each in reports.reports if isinstance(each, Log)] == ["50%\r", "100%\n"]


def test_runs_have_one_thread_and_it_is_not_that_of_setup(model):
    code = "out = [threading.get_ident(), self.setup_thread, threading.main_thread().ident]"
    (first, setup, main), again = model.run(code=code).output, model.run(code=code).output
    assert setup == main != first
    assert again[0] == first


def test_metrics_and_context_reach_the_front_in_every_way_that_cog_offers(model):
    code = """
self.record_metric("a.b", 1)
self.scope.metrics["c"] = [1, float("nan")]
cog.current_scope().record_metric("n", 2, mode="incr")
cog.current_scope().metrics.record("l", "x", "append")
cog.emit_metric("e", 1.5)
self.record_metric("c", None)
self.record_metric("nan", float("nan"))
threading.Thread(target=self.record_metric, args=("t", 1)).start()
out = cog.current_scope().context
"""
    reports = model.run(code=code, context={"user": "x"})
    metrics = [
        (each.name, each.value, each.mode) for each in reports.reports if isinstance(each, Metric)
    ]
    assert metrics == [
        ("a.b", b"1", "replace"),
        ("c", b"[1,null]", "replace"),
        ("n", b"2", "increment"),
        ("l", b'"x"', "append"),
        ("e", b"1.5", "replace"),
        ("c", b"null", "replace"),
        ("t", b"1", "replace"),
    ]
    assert reports.output == {"user": "x"}


def test_a_program_that_the_model_starts_is_ended_by_the_usual_signals(model):
    code = """
import multiprocessing, subprocess, warnings
warnings.simplefilter("ignore")
one = multiprocessing.get_context("fork").Process(target=time.sleep, args=(100,))
one.start(); one.terminate(); one.join(5)
two = subprocess.Popen(["sleep", "100"])
two.terminate(); two.wait(5)
print(one.exitcode, two.returncode)
"""
    assert model.run(code=code).logs == "-15 -15\n"


def test_a_fork_that_comes_out_of_the_run_ends(model):
    code = "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nout = pid > 0"
    assert model.run(code=code).output is True
