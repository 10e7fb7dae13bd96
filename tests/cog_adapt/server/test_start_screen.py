"""What a terminal shows of a start: the progress, then three lines; or in words what failed."""

import contextlib
import os
import pty
import re
import socket
import subprocess
import sys

import pytest

from cog_adapt.command import new
from tests.cog_adapt.contract.serving import free_port
from tests.cog_adapt.server.command.conftest import ROOT
from tests.cog_adapt.waiting import wait_until, wait_until_quiet

PLAIN = "def run(text: str = '') -> str: return text\n"
FAILING = """\
class Predictor:
    def setup(self) -> None:
        raise ValueError("my own mistake")
    def run(self) -> str: return ""
"""


@pytest.fixture
def show(tmp_path, monkeypatch):
    """Starts a server on a terminal; returns what is shown until a text is, and the port."""
    monkeypatch.chdir(tmp_path)

    @contextlib.contextmanager
    def start(predictor, run="predict.py:run", **variables):
        if predictor is not None:
            (tmp_path / "predict.py").write_text(predictor)
            (tmp_path / "cog.yaml").write_text(f"run: {run}\n")
        port = variables.pop("PORT", free_port())
        ours, theirs = pty.openpty()
        os.set_blocking(ours, False)
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PORT": str(port), "NO_COLOR": "1"}
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "cog_adapt", "serve", "--host", "127.0.0.1"],
            env=environment | variables,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        screen = b""

        def shown():
            nonlocal screen
            with contextlib.suppress(OSError):
                screen += os.read(ours, 65536)
            return screen.decode().replace("\r\n", "\n")

        def until(text):
            wait_until(lambda: text in shown(), 60, shown)
            wait_until_quiet(lambda: len(shown()), 0.2)  # for a line too many
            return shown()

        try:
            yield until, port
        finally:
            process.terminate()
            process.wait(30)
            os.close(ours)

    return start


def test_three_lines_say_that_it_is_ready_and_where(show):
    with show(PLAIN) as (until, port):
        shown = until("page ")
    assert re.fullmatch(
        r"ready    after \d+\.\d s; without a self-test\n"
        rf"address  http://127\.0\.0\.1:{port}/predictions\n"
        rf"page     http://127\.0\.0\.1:{port}/playground\n",
        shown,
    ), shown


def test_the_progress_of_a_models_setup_is_shown_with_the_seconds_of_its_self_test(show, tmp_path):
    new.write_project(tmp_path, "tabular")
    # Other tests start the same project: with their weights, this start would be a quick one.
    with show(None, WEIGHTS_DIR=str(tmp_path / "weights")) as (until, _):
        shown = until("page ")
    expected = (
        "loading the model of Table",
        r"loaded on cpu/fp32 in \d+\.\d s",
        "self-test: do gradients reach every parameter\\?",
        r"self-test \(full\) passed in \d+\.\d s",
        r"ready    after \d+\.\d s; the self-test passed",
    )
    assert re.search("(?s)" + ".*".join(expected), shown), shown


def test_a_failed_setup_shows_the_users_lines_once_and_says_what_follows(show):
    with show(FAILING, run="predict.py:Predictor") as (until, _):
        shown = until("doctor` says what is missing.")
    assert shown.count("Traceback") == 1
    assert re.findall(r'predict\.py", line (\d+)', shown) == ["3"]
    assert "/cog_adapt/" not in shown
    assert "setup failed" in shown
    assert "ready " not in shown
    assert "every prediction is refused" in shown


def test_a_port_in_use_is_one_sentence(show):
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        with show(PLAIN, PORT=port) as (until, _):
            shown = until("set PORT.")
    assert shown.splitlines() == [
        f"ERROR: 127.0.0.1 port {port} cannot be listened on: Address already in use. "
        "End the process that listens there, or set PORT."
    ]


@pytest.mark.parametrize("log_format", ["json", ""])
def test_lines_for_developers_are_shown_where_they_are_asked_for(show, log_format):
    with show(PLAIN, COG_LOG_LEVEL="debug", LOG_FORMAT=log_format) as (until, _):
        shown = until("playground")
    assert "startup" in shown


def test_json_without_lines_for_developers_is_written_where_it_is_asked_for(show):
    with show(PLAIN, LOG_FORMAT="json") as (until, _):
        shown = until("playground")
    assert all(line.startswith("{") for line in shown.splitlines())
    assert "alembic" not in shown
    assert "uvicorn" not in shown
