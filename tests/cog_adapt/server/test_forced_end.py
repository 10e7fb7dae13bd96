"""A process that does not end by itself is ended."""

import os
import subprocess
import sys
import time

import pytest

ENDS = (
    "from cog_adapt.server.process.forced_end import end_by_force_after as end; "
    "import threading, time; "
)


def run(code):
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", ENDS + code],
        capture_output=True,
        text=True,
        cwd=os.getcwd(),
        timeout=60,
        check=False,
    )
    return done, time.monotonic() - began


@pytest.mark.parametrize(
    "hangs",
    ["time.sleep(50)", "threading.Thread(target=time.sleep, args=(50,)).start()"],
    ids=["the main thread", "a thread that the interpreter waits for"],
)
def test_what_hangs_is_left_after_the_seconds(hangs):
    done, seconds = run(f"end(0.3); {hangs}")
    assert (done.returncode, "ended by force" in done.stdout) == (1, True)
    assert 0.3 <= seconds < 20


def test_a_process_that_ends_in_time_is_left_alone():
    done, _ = run("end(0.5)")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
