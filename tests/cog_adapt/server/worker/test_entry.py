"""Where a spawned worker begins."""

import multiprocessing
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from cog_adapt.server.worker import guard, main
from cog_adapt.server.worker.config import WorkerConfig
from cog_adapt.server.worker.entry import enter


@pytest.mark.parametrize(
    ("front", "bound"), [(SimpleNamespace(pid=7), [("end", 7), ("guard", 7)]), (None, [])]
)
def test_it_runs_main_in_a_session_of_its_own_that_ends_with_the_front(monkeypatch, front, bound):
    calls: list[Any] = []
    monkeypatch.setattr(os, "setsid", lambda: calls.append("session"))
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: front)
    monkeypatch.setattr(guard, "end_with", lambda *arguments: calls.append(("end", *arguments)))
    monkeypatch.setattr(
        guard, "start_guard", lambda *arguments: calls.append(("guard", arguments[0]))
    )
    monkeypatch.setattr(main, "main", lambda *arguments: calls.append(arguments))
    config = WorkerConfig("predict.py")
    channel: Any = "channel"
    enter(channel, config)
    assert calls == ["session", *bound, ("channel", config, None)]


def test_the_front_process_imports_nothing_of_the_worker_with_it():
    code = "import sys, cog_adapt.server.worker.entry; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=os.getcwd()
    )
    modules = done.stdout.split()
    assert "cog_adapt.server.worker.config" in modules
    assert not {"cog", "cog_adapt.server.worker.main", "cog_adapt.server.worker.predictor"} & set(
        modules
    )
