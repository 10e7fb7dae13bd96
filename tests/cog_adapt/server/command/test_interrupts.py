"""Ctrl-C and other signals, in this process and on commands that run as from a shell."""

import signal
import threading
from typing import Any

import pytest

from cog_adapt.server.command.interrupts import canceling, ending_on_signals
from tests.cog_adapt.server.command.conftest import wait_until_gone
from tests.cog_adapt.waiting import assert_stays, wait_until, wait_until_quiet


def test_ctrl_c_cancels_the_run_waits_for_its_end_and_says_so(start, mirror, tmp_path):
    command = start(
        tmp_path, "predict", "--url", mirror.url, "-i", "pauses=1000", API_KEY=mirror.key
    )
    command.wait_for("pause 3")
    command.interrupt()
    done = command.end()
    assert (done.code, done.out) == (130, "")
    assert done.err.splitlines()[-1] == "canceled"
    (record,) = mirror.request("GET", "/predictions?limit=1").json()["results"]
    assert record["status"] == "canceled"


def test_ctrl_c_ends_the_private_server_too(start, streamer):
    command = start(streamer, "predict", "-i", "words=1000", "-i", "pause=0.05")
    command.wait_for("second")
    command.interrupt()
    done = command.end()
    assert done.code == 130
    assert done.out.startswith("word0 ")
    assert done.err.splitlines()[-1] == "canceled"
    wait_until_gone(streamer)


def test_the_second_ctrl_c_leaves_at_once_and_kills_the_server(start, streamer):
    # one long sleep in C: the first Ctrl-C cannot end it
    command = start(streamer, "predict", "-i", "pause=600")
    command.wait_for("begin")
    command.interrupt()
    command.wait_for("canceling; Ctrl-C again leaves at once")
    command.interrupt()
    assert command.end().code == 130
    wait_until_gone(streamer)


def test_ctrl_c_during_setup_leaves_nothing_behind(start, tmp_path):
    (tmp_path / "predict.py").write_text(
        "import time\n"
        "class Predictor:\n"
        "    def setup(self) -> None:\n"
        "        open('begun', 'w').close()\n"
        "        time.sleep(600)\n"
        "    def predict(self) -> str:\n"
        "        return ''\n"
    )
    (tmp_path / "cog.yaml").write_text("run: predict.py:Predictor")
    command = start(tmp_path, "predict")
    wait_until((tmp_path / "begun").exists, 30)
    command.interrupt()
    assert command.end().code == 130
    wait_until_gone(tmp_path)


def press_ctrl_c():
    signal.raise_signal(signal.SIGINT)


def test_without_ctrl_c_nothing_is_canceled_and_the_handler_is_put_back():
    before = signal.getsignal(signal.SIGINT)
    said: Any = []
    with canceling(lambda: bool(said.append("cancel")), said.append) as state:
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
    assert (state.once, said) == (False, [])


def test_the_first_cancels_until_the_server_knows_the_run():
    said: list[Any]
    asked, said, known = [], [], threading.Event()

    def cancel():
        asked.append(threading.current_thread())
        if len(asked) == 3:
            known.set()
        return known.is_set()

    with canceling(cancel, said.append) as state:
        press_ctrl_c()
        assert state.once
        assert known.wait(10)
        assert_stays(lambda: len(asked) == 3, 0.3)
    assert threading.main_thread() not in asked
    assert said == ["canceling; Ctrl-C again leaves at once"]


def test_the_second_leaves_at_once():
    before = signal.getsignal(signal.SIGINT)

    def press_twice():
        with canceling(lambda: True, lambda _: None):
            press_ctrl_c()
            press_ctrl_c()

    with pytest.raises(KeyboardInterrupt):
        press_twice()
    assert signal.getsignal(signal.SIGINT) is before


def test_nothing_is_canceled_after_the_end():
    asked, first = [], threading.Event()

    def cancel():
        asked.append(1)
        first.set()
        return False

    with canceling(cancel, lambda _: None):
        press_ctrl_c()
        assert first.wait(10)
    wait_until_quiet(lambda: len(asked), 0.3)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_the_command_in_order(number, code):
    before = [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)]
    with pytest.raises(SystemExit) as caught, ending_on_signals():
        signal.raise_signal(number)
    assert caught.value.code == code
    after = [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)]
    assert after == before


def test_ctrl_c_works_in_a_job_of_the_background_too():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(KeyboardInterrupt), ending_on_signals():
            press_ctrl_c()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
