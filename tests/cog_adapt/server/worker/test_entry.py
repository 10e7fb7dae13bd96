"""Where a spawned worker begins."""

import os
import subprocess
import sys
from typing import Any

from cog_adapt.server.worker import main
from cog_adapt.server.worker.config import WorkerConfig
from cog_adapt.server.worker.entry import enter


def test_it_runs_main_in_a_process_group_of_its_own(monkeypatch):
    calls = []
    monkeypatch.setattr(os, "setpgrp", lambda: calls.append("group"))
    monkeypatch.setattr(main, "main", lambda *arguments: calls.append(arguments))
    config = WorkerConfig("predict.py")
    channel: Any = "channel"
    enter(channel, config)
    assert calls == ["group", ("channel", config)]


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
