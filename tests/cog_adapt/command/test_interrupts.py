"""Ctrl-C, on commands that run as from a shell."""

import time

from tests.cog_adapt.command.conftest import wait_until_gone


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
    deadline = time.monotonic() + 30
    while not (tmp_path / "begun").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    command.interrupt()
    assert command.end().code == 130
    wait_until_gone(tmp_path)
