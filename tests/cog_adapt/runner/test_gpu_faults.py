"""Models and tasks that only a device makes hard; skipped where there is none."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.errors import RunnerError
from cog_adapt.runner.model.loaded_model import LoadedModel
from tests.cog_adapt.devices import FIRST, LAST, NEEDS_CUDA, NEEDS_TWO
from tests.cog_adapt.models import Caching, Images, Labelled, examples, inputs, labels
from tests.cog_adapt.runner.ticks import drained
from tests.standin import VERSION

pytestmark = NEEDS_CUDA
ROOT = Path(__file__).parents[3]
WIDTH = Labelled.width


class Dropping(nn.Module):
    """A block with dropout."""

    def __init__(self):
        super().__init__()
        self.feed = nn.Linear(WIDTH, WIDTH)
        self.drop = nn.Dropout(0.5)

    def forward(self, hidden):
        return hidden + self.drop(torch.tanh(self.feed(hidden)))


class ByKeyword(nn.Module):
    """Calls its blocks by keyword, as many models of `transformers` do."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Dropping(), Dropping()])
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, x):
        for block in self.blocks:
            x = block(hidden=x)
        return self.head(x)


class Keywords(Labelled):
    def module(self):
        return ByKeyword()


def loaded(task, device=LAST, **settings):
    torch.cuda.set_device(FIRST)
    settings = {"precision": "fp32", **settings}
    return LoadedModel(task, RunnerSettings(device=str(device), **settings))


def test_blocks_called_by_keyword_are_recomputed_with_the_same_dropout():
    model = loaded(Keywords())
    one, other = (
        drained(model.adapting(examples("images"), Recipe("all", max_steps=3, checkpointing=on)))[1]
        for on in (False, True)
    )
    assert one.adapter.id == other.adapter.id


def test_a_model_with_an_empty_buffer_is_loaded_and_adapts():
    class Empty(Images):
        def module(self):
            made = super().module()
            made.register_buffer("unused", torch.empty(0))
            return made

    model = loaded(Empty())
    done = drained(model.adapting(examples("images"), Recipe("all", max_steps=2)))[1]
    assert len(done.report.steps) == 2
    assert model.base.census.changes(model.base.module) == []


@NEEDS_TWO
def test_a_task_that_writes_cuda_means_the_chosen_device(make_runner):
    class Careless(Images):
        def predict(self, module, batch, labels, options):
            shift = torch.zeros(1, WIDTH, device="cuda")
            return module(batch["x"] + shift).float().tolist()

    runner = make_runner(Careless(), device=str(LAST))
    for _ in range(2):
        assert len(runner.predict(inputs("images"), None, labels("images"))) == 3


def test_memory_that_runs_out_in_a_prediction_is_said_in_words(make_runner):
    class Hungry(Caching):
        is_hungry = False

        def predict(self, module, batch, labels, options):
            if self.is_hungry:
                torch.empty(2**50, device=batch["x"].device)
            return super().predict(module, batch, labels, options)

    runner = make_runner(Hungry(), device=str(LAST))
    before = runner.predict(inputs("caching"), None, labels("caching"))
    runner.task.is_hungry = True
    with pytest.raises(RunnerError, match="memory ran out"):
        runner.predict(inputs("caching"), None, labels("caching"))
    runner.task.is_hungry = False
    assert runner.predict(inputs("caching"), None, labels("caching")) == before
    assert runner.health() == ()


# In a process of its own, for which the device is lost afterwards.
INDEX_OUT_OF_RANGE = """
import torch
from torch.nn import functional as F
from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.model_runner import ModelRunner
from tests.cog_adapt.models import Images, examples, inputs, labels

def outside(losses):
    table = torch.ones(3, 2, device=losses.device)
    rows = torch.full((len(losses),), 10**6, device=losses.device)
    return losses + F.embedding(rows, table)[:, 0]

task = Images()
runner = ModelRunner(task, RunnerSettings(device="cuda:0", precision="fp32"))
assert runner.health() == ()
task.fault = outside
for work in (lambda: runner.adapt(examples("images")),
             lambda: runner.predict(inputs("images"), None, labels("images"))):
    try:
        work()
    except Exception as error:
        print(type(error).__name__, error)
print("health:", *runner.health())
runner.close()
"""


def test_a_device_that_failed_is_said_by_every_call_and_by_health():
    on_stand_in = torch.version.cuda == VERSION
    loading = "from tests.standin.load import load\nload()\n" if on_stand_in else ""
    done = subprocess.run(
        [sys.executable, "-c", loading + INDEX_OUT_OF_RANGE],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    *calls, health = done.stdout.splitlines() or [""]
    assert len(calls) == 2, done.stderr
    assert all("device-side assert" in call for call in calls), calls
    assert health.startswith("health: the device cuda:0 failed"), health
