"""A run on the screen."""

import io
import os
import pty
import select
import subprocess
import sys
import time

import pytest
from rich.console import Console

from cog_adapt.server.command import display as module
from cog_adapt.server.command.display import Display
from tests.cog_adapt.server.command.conftest import ROOT


def test_a_terminal_shows_the_steps_and_a_file_gets_no_colours(mirror, tmp_path):
    command = [sys.executable, "-m", "server", "predict", "--url", mirror.url, "-i", "pauses=8"]
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "API_KEY": mirror.key, "TERM": "xterm"}
    variables.pop("NO_COLOR", None)
    plain = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, check=True)
    assert b"\x1b" not in plain.stdout + plain.stderr
    assert b"adaptation.step" not in plain.stderr
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, cwd=tmp_path, env=variables, stdout=theirs, stderr=theirs):
        os.close(theirs)
        shown = read_terminal(ours)
    assert b"adaptation.step" in shown
    assert b"\x1b[2mpause 7" in shown
    assert b'"score": 1.0' in shown


def read_terminal(terminal: int, seconds: float = 30.0) -> bytes:
    """All that is shown until the program ends."""
    shown, deadline = b"", time.monotonic() + seconds
    try:
        while select.select([terminal], [], [], max(0, deadline - time.monotonic()))[0]:
            shown += os.read(terminal, 65536)
    except OSError:  # the other end was closed
        pass
    finally:
        os.close(terminal)
    return shown


@pytest.fixture
def display():
    with Display() as display:
        yield display


def task_of(display):
    return display.progress.tasks[0]


def test_logs_and_messages_go_to_standard_error_as_they_are(display, capsys):
    display.show("log", {"data": "50%\r"})
    display.log("[bold]x[/] :smile: 1\n")
    display.say("[bold]said[/] " + "x" * 200)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "50%\r[bold]x[/] :smile: 1\n[bold]said[/] " + "x" * 200 + "\n"


def test_text_is_printed_as_it_comes_if_it_is_to_be(display, capsys):
    display.show("output", {"chunk": "no"})
    display.expect(None, is_text=True, streams_text=True)
    display.show("output", {"chunk": "one "})
    assert capsys.readouterr().out == "one "
    display.show("output", {"chunk": "[b]two"})
    display.show("output", {})
    assert capsys.readouterr().out == "[b]two"
    assert (display.is_text, display.streams_text) == (True, True)


@pytest.mark.parametrize(
    ("streamed", "whole", "printed"),
    [
        ("one ", "one two", "one two\n"),
        ("one", "one", "one\n"),
        ("one\n", "one\n", "one\n"),
        ("one", "other", "one\nother\n"),
        ("one", None, "one\n"),
        ("", "", ""),
        ("", None, ""),
        ("", "x\n", "x\n"),
    ],
)
def test_the_line_of_a_streamed_text_is_ended_after_what_is_missing(
    display, capsys, streamed, whole, printed
):
    display.expect(None, is_text=True, streams_text=True)
    display.show("output", {"chunk": streamed})
    display.finish_text(whole)
    assert capsys.readouterr().out == printed


def test_a_result_is_a_line_on_standard_output(display, capsys):
    display.put("[b] é")
    assert capsys.readouterr().out == "[b] é\n"


def test_the_phase_is_told(display):
    display.phase("setting up")
    assert task_of(display).description == "setting up"
    display.show("queued", {"position": 3})
    assert task_of(display).description == "queued, position 3"
    display.show("start", {})
    assert task_of(display).description == "running"
    display.show("other", {})
    assert task_of(display).description == "running"


def test_a_metric_is_shown_and_steps_count(display):
    display.expect(4, is_text=False, streams_text=False)
    assert task_of(display).total == 4
    display.show("metric", {"name": "adaptation.step", "value": 3})
    display.show("metric", {"name": "loss", "value": 0.123456})
    display.show("metric", {"name": "long", "value": "x" * 25})
    display.show("metric", {"name": "fits", "value": "y" * 24})
    display.show("metric", {"name": "x.step", "value": "many"})
    shown = f"adaptation.step 3  loss 0.1235  long …  fits {'y' * 24}  x.step many"
    assert task_of(display).fields["metrics"] == shown
    assert task_of(display).completed == 3


def test_the_clock_counts_the_run_alone(display):
    display.show("metric", {"name": "a.step", "value": 3})
    began = task_of(display).start_time
    display.show("start", {})
    assert task_of(display).start_time > began
    assert task_of(display).completed == 0


def test_it_is_live_on_two_terminals_only(monkeypatch):
    def consoles(*are_terminals):
        answers = iter(are_terminals)
        monkeypatch.setattr(
            module, "Console", lambda **options: Console(force_terminal=next(answers), **options)
        )
        with Display() as display:
            return not display.progress.disable, not display.progress.live.is_started

    assert consoles(False, False) == consoles(True, False) == consoles(False, True)
    assert consoles(False, True)[0] is False
    assert consoles(True, True)[0] is True


def test_colours_of_the_model_are_kept_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(
        module, "Console", lambda **options: Console(force_terminal=True, **options)
    )
    monkeypatch.setenv("TERM", "xterm")
    Display().log("\x1b[31mred\x1b[0m\n")
    assert "\x1b[2;31mred" in capsys.readouterr().err


def test_what_the_model_prints_is_seen_at_once(monkeypatch):
    stream = io.StringIO()
    flushed = []
    monkeypatch.setattr(stream, "flush", lambda: flushed.append(stream.getvalue()))
    monkeypatch.setattr("sys.stderr", stream)
    Display().log("50%\r")
    assert flushed == ["50%\r"]
