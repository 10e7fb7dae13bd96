"""The shipped task on each device, in each precision: tested, adapted, saved, loaded, resumed."""

from pathlib import Path

import pytest
import torch

from cog_adapt.runner.adaptation.start import Checkpoints
from cog_adapt.runner.adaptation.training_state import TrainingState, load_state, save_state
from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.data.examples import read_examples
from cog_adapt.runner.inference.answers import Query
from cog_adapt.runner.inference.label_tensors import finished
from cog_adapt.runner.model.loaded_model import LoadedModel
from cog_adapt.runner.modules.adapters import load_adapter, save_adapter
from cog_adapt.runner.selftest.run import run_self_test
from tests.cog_adapt.devices import COUNT, NEEDS_CUDA, PRECISIONS
from tests.cog_adapt.runner.ticks import drained

task = pytest.importorskip("task", reason="the shipped task is not here")

pytestmark = NEEDS_CUDA
DEVICES = [f"cuda:{number}" for number in range(min(COUNT, 2))] or ["cuda:0"]
ROWS = Path(__file__).parents[3] / "examples" / "tickets.jsonl"
RECIPE = Recipe("lora", max_steps=4, batch_size=6, hold_out=0.25, checkpointing=True)
LIMIT = {"fp32": 1e-3, "bf16": 0.05, "fp16": 0.01}  # of a probability


@pytest.fixture(scope="module")
def rows():
    return read_examples(ROWS).examples[:24]


@pytest.fixture(scope="module", params=[(d, p) for d in DEVICES for p in PRECISIONS], ids="-".join)
def setting(request):
    return request.param


@pytest.fixture(scope="module")
def model(setting):
    device, precision = setting
    return LoadedModel(
        task.TextClassification(), RunnerSettings(device=device, precision=precision)
    )


@pytest.fixture(scope="module")
def on_cpu():
    return LoadedModel(task.TextClassification(), RunnerSettings(device="cpu", precision="fp32"))


def probabilities(model, adapter, rows):
    query = Query([row.input for row in rows], adapter)
    answers = finished(model.predictions.part(query).working())
    return torch.tensor([[*answer["scores"].values()] for answer in answers])


def test_the_self_test_passes(model):
    report = run_self_test(model)
    assert report.passed, report


def test_it_adapts_resumes_saves_loads_and_answers_as_the_cpu_does(
    model, setting, on_cpu, rows, tmp_path
):
    states: list[TrainingState] = []
    keeping = Checkpoints(lambda: None, states.append, 2)
    whole = drained(model.adapting(rows, RECIPE, checkpoints=keeping))[1]
    save_state(states[0], tmp_path / "state")
    resuming = Checkpoints(lambda: load_state(tmp_path / "state"), lambda _: None, 2)
    resumed = drained(model.adapting(rows, RECIPE, checkpoints=resuming))[1]
    assert resumed.adapter.id == whole.adapter.id

    save_adapter(whole.adapter, tmp_path / "adapter.safetensors")
    adapter = load_adapter(tmp_path / "adapter.safetensors")
    assert adapter.id == whole.adapter.id
    expected = probabilities(on_cpu, adapter, rows)
    given = probabilities(model, adapter, rows)
    torch.testing.assert_close(given, expected, rtol=0, atol=LIMIT[setting[1]])
    assert {p.device for p in model.base.module.parameters()} == {torch.device(setting[0])}


def test_it_adapts_in_closed_form(model, rows):
    done = drained(model.adapting(rows, Recipe("auto", max_steps=2, budget_seconds=20)))[1]
    assert done.report.precision.startswith("cuda")
    answered = probabilities(model, done.adapter, rows).argmax(1).tolist()
    labels = [done.adapter.labels.index(row.target) for row in rows]
    assert sum(a == b for a, b in zip(answered, labels, strict=True)) > len(rows) / 2
