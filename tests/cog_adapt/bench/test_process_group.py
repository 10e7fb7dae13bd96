"""A walk that is ended leaves no process of its own."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cog_adapt.waiting import wait_until

ROOT = Path(__file__).parents[3]
WALK = """
import sys
from bench.process_group import end_on_signals, process_group
end_on_signals()
command = "echo $$ > pids; sleep 300 & echo $! >> pids; wait"
with process_group(command, cwd=sys.argv[1]) as each:
    if sys.argv[2] == "fail":
        sys.stdin.readline()
        raise SystemExit("it failed")
    each.wait()
"""


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("end", ["terminate", "fail"])
def test_the_processes_of_a_walk_end_with_it(tmp_path, end):
    command = [sys.executable, "-c", WALK, str(tmp_path), end]
    pids = tmp_path / "pids"
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE) as walk:
        wait_until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
        if end == "terminate":
            os.kill(walk.pid, signal.SIGTERM)
            assert walk.wait(60) == 128 + signal.SIGTERM
        else:
            walk.communicate(b"now\n", timeout=60)
    left = pids.read_text().split()  # a killed process is there for some milliseconds
    wait_until(lambda: not any(map(is_alive, left)), state=lambda: [*filter(is_alive, left)])
