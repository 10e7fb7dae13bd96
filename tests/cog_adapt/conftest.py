"""Fixtures for every test, and what tests use to see whether a runner left a trace."""

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch

from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.model_runner import ModelRunner
from cog_adapt.runner.scheduling.scheduler import once
from cog_adapt.runner.task.task import Task
from gradient_check.tests.states import module_state, process_state, thread_modes
from tests.cog_adapt.devices import DEVICE
from tests.cog_adapt.mixed import untimed
from tests.cog_adapt.models import SHAPES

# A server or command that a test starts must leave no pass of the self-test, and no adapter, in the
# tree: the next start there would be quick. Who sets WEIGHTS_DIR keeps it.
if "WEIGHTS_DIR" not in os.environ:
    os.environ["WEIGHTS_DIR"] = tempfile.mkdtemp(prefix="cog-adapt-weights-")
    atexit.register(shutil.rmtree, os.environ["WEIGHTS_DIR"], ignore_errors=True)

_MOST_TURNS = 20

torch.set_num_threads(1)  # on tensors this small a second thread only costs


@pytest.fixture(scope="session", autouse=True)
def shipped_task() -> ModuleType | None:
    """The module `task` of the repository, if the collection of tests has imported it."""
    return sys.modules.get("task")


@pytest.fixture(autouse=True)
def own_task_ends(shipped_task: ModuleType | None) -> Iterator[None]:
    """A module `task` that a test loads from its own folder is not what the next test imports."""
    path = list(sys.path)
    yield
    sys.path[:] = path  # a command puts its folder there
    if not hasattr(sys.modules.get("task"), "TextClassification"):
        sys.modules.pop("task", None)
        if shipped_task is not None:
            sys.modules["task"] = shipped_task


@pytest.fixture
def make_runner(tmp_path) -> Iterator[Callable[..., ModelRunner]]:
    """Makes runners whose ticks take no time, and closes them when the test ends."""
    made: list[ModelRunner] = []

    def make(task: Task, **settings: Any) -> ModelRunner:
        settings = {"device": DEVICE, "weights_dir": tmp_path / "weights", **settings}
        made.append(ModelRunner(task, RunnerSettings(**settings)))
        untimed(made[-1].model)
        return made[-1]

    yield make
    for runner in made:
        runner.close()


@pytest.fixture
def cublas_workspace(monkeypatch) -> Iterator[None]:
    """A process that was started with what `DETERMINISTIC` needs; its switches are put back."""
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture(params=SHAPES)
def shape(request) -> str:
    """The name of each small model in turn."""
    return request.param


@pytest.fixture
def runner(make_runner, shape) -> ModelRunner:
    """A runner of each small model in turn."""
    return make_runner(SHAPES[shape]())


def jobs_left(runner: ModelRunner) -> int:
    """How many pieces of work are still under way, once dropped ones had their turn.

    Counted on the model thread, between ticks: from outside, the one that runs is not seen. Owners
    who have paid much have their turn after several that cost nothing.
    """
    runner.scheduler.submit_long(once(int)).wait()
    for _ in range(_MOST_TURNS):
        left = runner.scheduler.submit_long(once(len, runner.scheduler)).wait()
        if not left:
            break
    return left


def traces(runner: ModelRunner) -> dict[str, object]:
    """Everything that an adaptation could leave behind; written apart from `census`."""
    model_thread = runner.scheduler.submit_long(once(thread_modes)).wait()
    return {
        "base": module_state(runner.model.base.module),
        "template": module_state(runner.model.base.template),
        "process": process_state(),
        "this thread": thread_modes(),
        "model thread": model_thread,
    }
