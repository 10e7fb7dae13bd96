"""Runners of one host divide its cores; their threads spin for a moment, then sleep."""

import logging
import os
import subprocess
import sys
from typing import Any

import pytest
import torch

from cog_adapt.machine import cores
from cog_adapt.runner.devices import threads
from cog_adapt.runner.devices.threads import share_cores

HOLDS = """
import sys
from pathlib import Path
from cog_adapt.runner.devices import threads
threads.cores = lambda: 4
print(threads.share_cores({}, Path(sys.argv[1])), flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def own_threads(monkeypatch):
    """Four cores; the number of threads is put back."""
    before = torch.get_num_threads()
    monkeypatch.setattr(threads, "cores", lambda: 4)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def start(tmp_path):
    """Starts runners in processes of their own; each gives its number of threads."""
    started = []

    def begin():
        process: Any = subprocess.Popen(
            [sys.executable, "-c", HOLDS, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process, int(process.stdout.readline())

    yield begin
    for process in started:
        process.communicate()


def test_runners_of_one_host_divide_its_cores(start, tmp_path, caplog):
    with caplog.at_level(logging.INFO):
        assert start()[1] == 4
        second, share = start()
        assert share == 2
        assert share_cores({}, tmp_path) == 1  # 4 cores for 3
    assert torch.get_num_threads() == 1
    assert "torch's threads here: 1, of 4 cores for 3 runners" in caplog.text
    second.communicate()  # its end frees its place
    assert start()[1] == 1


def test_a_process_is_counted_once_however_many_models_it_has(tmp_path):
    assert [share_cores({}, tmp_path) for _ in range(3)] == [4, 4, 4]


def test_omp_num_threads_is_obeyed_and_its_runner_is_counted(start, tmp_path):
    torch.set_num_threads(1)
    assert share_cores({"OMP_NUM_THREADS": "1"}, tmp_path) == 1
    assert start()[1] == 2


def test_where_nothing_can_be_written_a_runner_is_alone(tmp_path):
    file = tmp_path / "file"
    file.touch()
    assert share_cores({}, file / "folder") == 4


@pytest.mark.parametrize(
    ("text", "expected"), [("max 100000", None), ("150000 100000", 1), ("10000 100000", 1)]
)
def test_a_containers_quota_bounds_the_cores(tmp_path, text, expected):
    quota = tmp_path / "cpu.max"
    quota.write_text(text)
    allowed = len(os.sched_getaffinity(0))
    assert cores(quota) == (expected or allowed)
    assert cores(tmp_path / "absent") == allowed


def test_threads_that_wait_spin_for_a_moment_unless_the_operator_says_otherwise():
    code = "import os, cog_adapt.runner as _; print(*map(os.environ.get, "
    code += "('OMP_WAIT_POLICY', 'GOMP_SPINCOUNT')))"
    own = {n: v for n, v in os.environ.items() if n not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    for given, expected in (
        ({}, "PASSIVE 3000"),
        ({"GOMP_SPINCOUNT": "5"}, "PASSIVE 5"),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE None"),
    ):
        command = [sys.executable, "-c", code]
        found = subprocess.run(command, env=own | given, capture_output=True, text=True, check=True)
        assert found.stdout.strip() == expected
