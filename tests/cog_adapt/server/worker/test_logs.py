"""sys.stdout and sys.stderr of the worker."""

import io
import json
import os
import sys

import pytest

from cog_adapt.server.protocol import SetupLog
from cog_adapt.server.worker.logs import CapturedStream, SetupOutput
from cog_adapt.server.worker.server_log import ServerLog
from gradient_check.tests.present import present


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


def test_only_text_is_text(stream):
    with pytest.raises(TypeError, match=r"^write\(\) argument must be str, not bytes$"):
        stream.write(b"x")


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
    stream.buffer.write("é\n".encode())
    stream.writelines(["a\n", "b\n"])
    assert "".join(each.data for each in sent) == "é\na\nb\n"
