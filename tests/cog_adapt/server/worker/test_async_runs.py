"""An asynchronous run() in a real model process."""

import textwrap
import time

import pytest

from cog_adapt.server.protocol import Finished, Log, Metric, Output
from tests.cog_adapt.server.worker.conftest import Reports

SOURCE = """
    import asyncio, sys, threading, time
    from typing import Any
    import cog

    class Runner(cog.BaseRunner):
        async def setup(self):
            self.loop = asyncio.get_running_loop()

        @cog.concurrent(max=4)
        async def run(self, code: str = "") -> Any:
            names = {**globals(), "self": self}
            exec(code, names)
            return await names["main"]() if "main" in names else names.get("out")
"""
GENERATOR = """
    import asyncio
    from pathlib import Path
    from typing import AsyncIterator

    class Runner:
        async def run(self, gate: str, fail: bool = False) -> AsyncIterator[int]:
            try:
                yield 1
                if fail:
                    raise ValueError("boom")
                while not Path(gate).exists():
                    await asyncio.sleep(0.01)
                yield 2
            finally:
                await asyncio.sleep(0)
                print("closed")
"""


@pytest.fixture(scope="module")
def model(launch):
    return launch(SOURCE)


@pytest.fixture(scope="module")
def generator(launch):
    return launch(GENERATOR)


def main(*lines):
    return "async def main():\n" + "".join(f"  {line}\n" for line in lines)


def test_an_async_generator_is_closed_by_a_cancel(generator, tmp_path):
    generator.start(gate=str(tmp_path / "never"))
    heard = generator.hear_until(Output)
    generator.cancel()
    reports = Reports(heard + generator.hear_until(Finished))
    assert (reports.status, reports.outputs, reports.logs) == ("canceled", [1], "closed\n")


def test_a_failing_async_generator_keeps_its_output(generator):
    reports = generator.run(gate="", fail=True)
    assert reports.error == "Prediction failed: Async prediction failed: ValueError: boom"
    assert reports.outputs == [1]


@pytest.mark.parametrize(
    ("raised", "status", "error"),
    [
        ("SystemExit(3)", "failed", "SystemExit: 3"),
        ("cog.CancelationException", "failed", "CancelationException: "),
        ("asyncio.CancelledError", "canceled", None),
    ],
)
def test_a_failure_is_told_in_coglets_words_and_the_loop_lives(model, raised, status, error):
    reports = model.run(code=main(f"raise {raised}"))
    assert reports.status == status
    assert reports.error == (error and f"Prediction failed: Async prediction failed: {error}")
    assert model.run(code="out = [1]").output == [1]


def test_an_async_training_fails_as_one(launch):
    model = launch(
        "async def train() -> str:\n    raise ValueError('boom')",
        reference="predictor.py:train",
        kind="train",
    )
    assert model.run().error == "Prediction failed: Async training failed: ValueError: boom"


def test_a_long_list_lets_other_runs_through(model):
    """All of its items would otherwise be sent first: here 200,000, of which nobody reads one."""
    model.start("long", code=main("return ['item'] * 200_000"))
    model.start("short", code="out = 1")
    reports = model.hear_until(Finished)
    assert reports[-1].id == "short"
    assert sum(isinstance(each, Output) and each.id == "long" for each in reports) < 50_000
    rest = Reports(model.hear_until(Finished))
    assert rest.finished.id == "long"
    assert rest.status == "succeeded"


def test_large_inputs_are_read_as_small_ones_are(model):
    code = "out = len(names['self'].__class__.__name__)" + " " * 100_000
    assert model.run(code=code.replace("names['self']", "self")).output == len("Runner")


def test_what_a_left_over_task_prints_is_in_no_later_logs(model):
    code = main(
        "async def late():",
        "  await asyncio.sleep(0.05)",
        "  print('late'); self.record_metric('late', 1)",
        "asyncio.create_task(late())",
    )
    model.run("one", code=code)
    reports = model.run("two", code=main("await asyncio.sleep(0.2)"))
    assert reports.logs == ""
    assert not [each for each in reports.reports if isinstance(each, Metric)]


@pytest.mark.parametrize("number", range(20))
def test_a_cancel_at_once_is_never_a_failure(model, number):
    model.start(f"p{number}", code=main("await asyncio.sleep(30)"))
    model.cancel(f"p{number}")
    assert Reports(model.hear_until(Finished)).status == "canceled"


def test_a_canceled_run_cleans_up_before_it_has_ended(model):
    code = main(
        "try:",
        "  print('go')",
        "  await asyncio.sleep(30)",
        "finally:",
        "  await asyncio.sleep(0.05)",
        "  print('cleaned up')",
    )
    model.start(code=code)
    heard = model.hear_until(Log)
    model.cancel()
    reports = Reports(heard + model.hear_until(Finished))
    assert (reports.status, reports.logs) == ("canceled", "go\ncleaned up\n")


def test_a_run_that_swallows_the_cancel_is_canceled_and_keeps_its_output(model):
    code = main(
        "try:", "  print('go')", "  await asyncio.sleep(30)", "except BaseException: return [1]"
    )
    model.start(code=code)
    heard = model.hear_until(Log)
    model.cancel()
    reports = Reports(heard + model.hear_until(Finished))
    assert (reports.status, reports.outputs) == ("canceled", [1])


def test_stop_waits_for_the_runs_that_go_on(launch):
    front = launch(SOURCE)
    front.start(code=main("await asyncio.sleep(0.3)", "return 'done'"))
    front.stop()
    assert Reports(front.hear_until(Finished)).output == "done"
    front.process.join(20)
    assert front.process.exitcode == 0


def test_an_end_is_told_before_another_run_blocks_the_loop(model):
    waits = main("self.gate = asyncio.Event(); print('waits'); await self.gate.wait()")
    model.start("waits", code=waits)
    model.hear_until(Log)
    blocks = ["self.gate.set()", "await asyncio.sleep(0)", "await asyncio.sleep(0)"]
    model.start("blocks", code=main(*blocks, "time.sleep(1)", "return time.monotonic()"))
    assert model.hear_until(Finished)[-1].id == "waits"
    heard = time.monotonic()
    assert Reports(model.hear_until(Finished)).output - heard > 0.5


def test_a_large_answer_arrives_where_the_users_loop_is_uvloop(launch):
    model = launch(f"import uvloop\nuvloop.install()\n{textwrap.dedent(SOURCE)}")
    for _ in range(2):
        reports = model.run(code=main("return 'y' * 3_000_000"))
        assert len(reports.output) == 3_000_000


@pytest.mark.parametrize("error", ["SystemExit(3)", "KeyboardInterrupt()", "ValueError('boom')"])
def test_a_generator_that_an_async_run_returns_may_raise_anything(model, error):
    code = f"def items():\n  yield 1\n  raise {error}\n" + main("return items()")
    reports = model.run(code=code)
    assert (reports.status, reports.outputs) == ("failed", [1])
    assert error.partition("(")[0] in reports.error
    assert "Traceback" in reports.logs


def test_a_process_whose_loop_was_closed_ends(launch):
    model = launch(SOURCE)
    close = "os.close(self.loop._selector.fileno())"
    model.start(code=f"import os; self.loop.call_soon(lambda: {close})")
    model.process.join(20)
    assert model.process.exitcode == 1


def test_a_fork_that_ends_oddly_leaves_the_inputs_of_others(launch):
    source = """
        import asyncio, os, sys
        import cog

        class Runner(cog.BaseRunner):
            async def setup(self):
                self.forked = asyncio.Event()

            @cog.concurrent(max=2)
            async def run(self, file: cog.Path | None = None) -> str:
                if file is None:
                    if not os.fork():
                        sys.exit(0)
                    os.wait()
                    self.forked.set()
                    return "forked"
                print("here", flush=True)
                await self.forked.wait()
                return file.read_text()
    """
    model = launch(source, prefix="tmpforked_")
    model.start("reads", file="data:text/plain,hello")
    heard = model.hear_until(Log)
    model.start("forks")
    heard += model.hear_until(Finished)
    heard += model.hear_until(Finished)
    assert Reports(heard, "forks").output == "forked"
    assert Reports(heard, "reads").output == "hello"
    assert model.run(file="/etc/passwd").error.startswith("Input validation error: input 'file'")
