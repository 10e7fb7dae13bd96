"""Runs on a server that the command starts for itself."""

import os
import pty
import select
import subprocess
import sys
import time

from tests.cog_adapt.command.conftest import ROOT, make_folder, wait_until_gone


def test_streamed_text_is_printed_once_and_the_server_is_gone_afterwards(start, streamer):
    # another server's database and keys are not this one's
    variables = {"DATABASE_URL": "postgresql://nowhere/x", "API_KEYS_FILE": "/missing"}
    done = start(streamer, "predict", "-i", "words=4", "--env", "COLOUR=blue", **variables).end()
    assert (done.code, done.out) == (0, "word0 word1 word2 word3 \n"), done.err
    assert done.err == "begin blue sqlite\nsecond\n"
    wait_until_gone(streamer)


def test_a_failed_setup_is_shown_with_its_logs(start, tmp_path):
    make_folder(
        tmp_path,
        "class Predictor:\n"
        "    def setup(self) -> None:\n"
        "        print('loading')\n"
        "        raise ValueError('no weights')\n"
        "    def predict(self) -> str:\n"
        "        return ''\n",
    )
    done = start(tmp_path, "predict").end()
    assert (done.code, done.out) == (1, "")
    assert done.err.splitlines()[:2] == ["error: the server's health is SETUP_FAILED.", "loading"]
    assert "ValueError: no weights" in done.err


def test_a_mistake_in_cog_yaml_is_shown_with_its_line(start, tmp_path):
    make_folder(tmp_path, "")
    (tmp_path / "cog.yaml").write_text("run: predict.py:Predictor\ntrian: train.py:train\n")
    done = start(tmp_path, "predict").end()
    assert done.code == 1
    assert "cog.yaml:2: trian: no such key" in done.err


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
