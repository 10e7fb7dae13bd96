"""What is written to the descriptors themselves is in the server's own log."""

import io
import json
import os

import pytest

from cog_adapt.server.worker.raw_output import RawReader
from tests.cog_adapt.contract.serving import serving
from tests.cog_adapt.waiting import wait_for

PREDICTOR = """
import ctypes, os, subprocess
class Predictor:
    def run(self, crash: bool = False) -> str:
        os.write(1, b"raw \\x1b[2J\\xc2\\x9b2J\\n")
        os.write(2, b"half")
        subprocess.run(["sh", "-c", "echo program"])
        if crash:
            os.write(2, b" last words")
            ctypes.string_at(0)
        return "done"
"""


class Log(io.StringIO):
    def fileno(self):
        return 99


@pytest.fixture
def pipes():
    made = [os.pipe(), os.pipe()]
    yield made
    for reader, _ in made:
        os.close(reader)


def test_lines_are_entries_however_the_bytes_are_cut(pipes):
    log, (out, err) = Log(), pipes
    reader = RawReader([out[0], err[0]], log, "json")
    assert reader.descriptors == {out[0], err[0], 99}
    for piece in ("é\n".encode()[:1], "é\n".encode()[1:], b"\xff\nno end"):
        os.write(out[1], piece)
        reader.read({out[0]})
    os.write(err[1], b"error\n")
    reader.read({err[0]})
    for _, writer in pipes:
        os.close(writer)
    assert reader.pipes == {out[0], err[0]}
    reader.read({out[0], err[0]})
    assert reader.pipes == set()
    reader.close()
    entries = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [(each["event"], each["source"]) for each in entries] == [
        ("é", "stdout"),
        ("\\xff", "stdout"),
        ("error", "stderr"),
        ("no end", "stdout"),
    ]


def test_a_log_that_nobody_reads_ends_nothing(pipes):
    class Broken(Log):
        def flush(self):
            raise BrokenPipeError

    (out, err) = pipes
    reader = RawReader([out[0], err[0]], Broken(), "json")
    os.write(out[1], b"lost\n")
    reader.read({out[0]})
    reader.close()
    for _, writer in pipes:
        os.close(writer)


def test_raw_writes_and_programs_are_entries_also_of_a_process_that_crashes(tmp_path):
    (tmp_path / "raw.py").write_text(PREDICTOR)
    with serving("mirror", tmp_path, predict="raw.py:Predictor") as server:
        server.predict()
        wait_for(lambda: "program" in server.text() or None)
        server.predict(crash=True)
        wait_for(lambda: "half last words" in server.text() or None)
        text = server.text()
    entries = [json.loads(line) for line in text.splitlines()]
    told = {each["event"]: each.get("source") for each in entries}
    assert told["raw \x1b[2J\x9b2J"] == told["program"] == "stdout"
    assert not {"\x1b", "\x9b"} & set(text)
