"""What is printed outside of runs, in the server's own log."""

import io
import json
import os
import threading

import pytest

from cog_adapt.server.worker.server_log import ServerLog
from tests.cog_adapt.contract.serving import serving

PREDICTOR = """
import os, sys, threading, time
from cog import BasePredictor

class Predictor(BasePredictor):
    def setup(self):
        print("two\\nlines")
        print("no end", end="", flush=True)
        print()
        print("key whsec_c2VjcmV0")
        import tqdm
        for _ in tqdm.tqdm(range(3), desc="plain bar", mininterval=0):
            pass
        for _ in tqdm.tqdm(range(3), desc="gone bar", mininterval=0, leave=False):
            pass
        from transformers.utils import logging
        for _ in logging.tqdm(range(3), desc="transformers bar", mininterval=0):
            pass
        if os.environ.get("FAILS"):
            raise RuntimeError("no weights")

    def healthcheck(self):
        sys.stderr.write("half \\r 50%\\r100%\\n")
        return True

    def run(self, fails: bool = False) -> str:
        print("in a run")
        if fails:
            raise Refused("rank is 9; allowed: 1 to 8.")
        return "done"

class Refused(ValueError):
    caller_error = True
"""


@pytest.fixture
def own():
    return io.StringIO()


@pytest.fixture
def log(own):
    return ServerLog(own, "json")


def told(own):
    return [json.loads(line)["event"] for line in own.getvalue().splitlines()]


def test_a_line_is_an_entry(log, own):
    log.write("stdout", "a\nb")
    log.write("stdout", "c\n\n \n")
    first, second = map(json.loads, own.getvalue().splitlines())
    assert (first["event"], first["source"], first["level"]) == ("a", "stdout", "info")
    assert first["timestamp"].endswith("Z")
    assert second["event"] == "bc"


def test_the_two_streams_do_not_mix(log, own):
    log.write("stdout", "out")
    log.write("stderr", "err\n")
    log.write("stdout", "\n")
    assert told(own) == ["err", "out"]


@pytest.mark.parametrize(
    ("text", "state"), [("a\r\n", "a"), ("a\rb\n", "b"), ("a\rb\r\n", "b"), ("\ra\n", "a")]
)
def test_of_a_line_that_was_written_again_the_last_state_is_told(log, own, text, state):
    log.write("stdout", text)
    assert told(own) == [state]


def test_the_end_tells_what_waits(log, own):
    log.write("stderr", "\r 50%")
    log.write("stdout", "tail")
    log.close()
    log.close()
    assert told(own) == ["tail", " 50%"]


def test_of_a_bar_without_end_only_its_last_state_is_kept(log, own):
    for number in range(10_000):
        log.write("stderr", f"\r{number} " + "x" * 100)
    assert own.getvalue() == ""
    log.close()
    (last,) = told(own)
    assert last.startswith("9999 ")


def test_a_line_without_end_is_cut(log, own):
    for _ in range(100):
        log.write("stdout", "x" * 1000)
    log.write("stdout", "\n" + "y" * 100_000 + "\n")
    assert max(map(len, told(own))) <= 2**16
    assert "".join(told(own)) == "x" * 100_000 + "y" * 100_000


def test_secrets_and_lone_surrogates_do_not_go_through(log, own):
    log.write("stdout", "whsec_c2VjcmV0 \ud800\n")
    assert told(own) == ["[redacted] \\ud800"]


def test_for_people_it_is_text_as_it_was_printed(own):
    log = ServerLog(own, "console")
    for text in ("a\n", "\r 1%", "\r 2%\ud800"):
        log.write("stderr", text)
        log.flush("stderr")
    log.close()
    assert own.getvalue() == "a\n\r 1%\r 2%\\ud800"


def test_a_fork_waits_for_no_lock_and_tells_nothing_of_its_parents(monkeypatch):
    written, go = threading.Event(), threading.Event()

    class Stream(io.StringIO):
        def write(self, text):
            if "held" in text:  # as long as this is not written, its writer holds the lock
                written.set()
                go.wait(20)
            return super().write(text)

    own, parent = Stream(), os.getpid()
    log = ServerLog(own, "json")
    log.write("stdout", "parents ")
    holder = threading.Thread(target=log.write, args=("stderr", "held\n"))
    holder.start()
    assert written.wait(20)
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)  # as in a fork
    log.write("stdout", "childs\n")
    assert told(own) == ["childs"]
    go.set()
    holder.join(20)


@pytest.mark.parametrize("fails", ["", "1"])
def test_every_line_of_a_servers_log_is_json_whatever_its_model_prints(tmp_path, fails):
    (tmp_path / "own.py").write_text(PREDICTOR)
    until = "SETUP_FAILED" if fails else "READY"
    variables = {"FAILS": fails}
    with serving("mirror", tmp_path, predict="own.py:Predictor", until=until, env=variables) as one:
        if not fails:
            assert one.predict()["logs"] == "in a run\n"
            shows_a_callers_mistake_no_path_and_the_operator_the_traceback(one)
        text = one.text()
    events = [json.loads(line)["event"] for line in text.splitlines()]
    assert {"two", "lines", "no end", "key [redacted]"} <= set(events)
    bars = [event for event in events if "bar:" in event]
    assert [bar.partition("|")[0] for bar in bars] == ["plain bar: 100%", "transformers bar: 100%"]
    assert "in a run" not in text
    assert ("100%" in events) is not bool(fails)
    assert ("RuntimeError: no weights" in events) is bool(fails)


def shows_a_callers_mistake_no_path_and_the_operator_the_traceback(server):
    said = "Refused: rank is 9; allowed: 1 to 8."
    answer = server.predict(fails=True)
    record = server.get(f"/predictions/{answer['id']}").text
    assert answer["logs"] == f"in a run\n{said}\n"
    assert answer["error"] == f"Prediction failed: Prediction failed: {said}"
    assert str(server.folder) not in record
    assert "Traceback" not in record
    events = [json.loads(line)["event"] for line in server.text().splitlines()]
    begun = events.index(f"prediction {answer['id']} fails by a mistake of its caller:")
    assert events[begun + 1] == "Traceback (most recent call last):"
    assert f'File "{server.folder}/own.py", line' in "".join(events[begun:])


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_nothing_that_is_printed_moves_a_terminal(own, log_format):
    ServerLog(own, log_format).write("stdout", "a\x1b[2J\x9b2J\n")
    assert "2J" in own.getvalue()
    assert not {"\x1b", "\x9b"} & set(own.getvalue())
