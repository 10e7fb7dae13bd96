"""sys.stdout and sys.stderr of the worker."""

import contextvars
import io
import json
import os
import sys

import pytest

from cog_adapt.server.protocol import Log, Run, SetupLog
from cog_adapt.server.worker.active import ActivePrediction, current
from cog_adapt.server.worker.logs import CapturedStream, SetupOutput, capture_output
from cog_adapt.server.worker.server_log import ServerLog
from gradient_check.tests.present import present

PARENT = os.getpid()


@pytest.fixture
def sent():
    return []


@pytest.fixture
def own():
    """The server's own stderr."""
    return io.StringIO()


@pytest.fixture
def log(own):
    return ServerLog(own, "console")


@pytest.fixture
def setup(sent, log):
    return SetupOutput(sent.append, log)


@pytest.fixture
def stream(setup, log):
    return CapturedStream("stdout", present(sys.__stdout__), setup, log)


@pytest.fixture
def in_prediction(sent):
    """Calls as the code of a prediction."""
    context = contextvars.copy_context()
    context.run(current.set, ActivePrediction(Run("p", b"{}", {}), sent.append))
    return context.run


def test_setup_prints_whole_lines_to_the_front_and_to_the_servers_own(stream, sent, own):
    assert stream.write("a\nb") == 3
    assert sent == [SetupLog("stdout", "a\n")]
    assert own.getvalue() == "a\n"


def test_the_end_of_setup_hands_on_the_last_line_and_later_prints_are_the_servers(
    setup, stream, sent, own
):
    stream.write("tail")
    setup.end()
    assert sent == [SetupLog("stdout", "tail")]
    stream.write("later")
    stream.flush()
    assert sent == [SetupLog("stdout", "tail")]
    assert own.getvalue() == "taillater"


def test_a_prediction_prints_into_its_own_logs(stream, sent, own, in_prediction):
    in_prediction(stream.write, "a\nb")
    in_prediction(stream.flush)
    assert sent == [Log("p", "stdout", "a\n"), Log("p", "stdout", "b")]
    assert own.getvalue() == ""


def test_a_flush_hands_on_the_beginning_of_a_line(stream, sent):
    stream.write("50%")
    assert sent == []
    stream.flush()
    assert sent == [SetupLog("stdout", "50%")]


def test_in_json_the_servers_own_is_an_entry_for_each_line(sent, own):
    log = ServerLog(own, "json")
    setup = SetupOutput(sent.append, log)
    stream = CapturedStream("stderr", present(sys.__stderr__), setup, log)
    for text in ("a\nb\n", "\r 10%", "\r 20%"):
        stream.write(text)
        stream.flush()
    setup.end()
    stream.write("later\n")
    entries = [json.loads(line) for line in own.getvalue().splitlines()]
    assert [entry["event"] for entry in entries] == ["a", "b", " 20%", "later"]
    assert "".join(each.data for each in sent) == "a\nb\n\r 10%\r 20%"


def test_a_fork_prints_to_the_servers_own(stream, sent, own, in_prediction, monkeypatch):
    monkeypatch.setattr(os, "getpid", lambda: PARENT + 1)
    in_prediction(stream.write, "child")
    in_prediction(stream.flush)
    assert (sent, own.getvalue()) == ([], "child")


def test_only_text_is_text(stream):
    with pytest.raises(TypeError, match=r"^write\(\) argument must be str, not bytes$"):
        stream.write(b"x")


def test_lines_and_bytes_are_taken_too(stream, sent):
    stream.writelines(["a\n", "b\n"])
    assert stream.buffer.write(memoryview("é\n".encode())) == 3
    stream.buffer.write(b"\xff")
    stream.buffer.flush()
    assert [log.data for log in sent] == ["a\n", "b\n", "é\n", "\\xff"]


def test_it_looks_like_the_stream_that_it_replaces(setup, log):
    with open(os.devnull, "w") as original:
        stream = CapturedStream("stderr", original, setup, log)
        assert stream.fileno() == stream.buffer.fileno() == original.fileno()
    assert (stream.name, stream.mode) == ("<stderr>", "w")
    assert (stream.encoding, stream.errors) == ("utf-8", "backslashreplace")
    assert not stream.isatty()
    assert stream.writable()
    assert stream.buffer.writable()
    stream.reconfigure(line_buffering=True)


def test_it_cannot_be_closed(stream, sent):
    stream.buffer.close()
    stream.close()
    assert not stream.closed
    assert not stream.buffer.closed
    stream.buffer.write(b"still\n")
    assert sent == [SetupLog("stdout", "still\n")]


def test_both_streams_are_captured(monkeypatch, sent):
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    setup = capture_output(sent.append, sys.stderr, "console")
    sys.stdout.write("out\n")
    sys.stderr.write("err\n")
    assert sent == [SetupLog("stdout", "out\n"), SetupLog("stderr", "err\n")]
    assert (out.getvalue(), err.getvalue()) == ("", "out\nerr\n")
    assert not setup.has_ended
