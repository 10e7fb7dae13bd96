"""What an adaptation does with devices that are several; skipped where there is none.

Everything runs on the last device while the first one is current, so what follows the current
device, or the CPU, in place of the chosen one shows where there are two.
"""

import gc

import pytest
import torch
from torch import nn

from cog_adapt.runner.adaptation.start import Checkpoints
from cog_adapt.runner.adaptation.training_state import load_state, save_state
from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.inference.answers import Query
from cog_adapt.runner.inference.label_tensors import finished
from cog_adapt.runner.model.loaded_model import LoadedModel
from cog_adapt.runner.modules.adapters import load_adapter, save_adapter
from tests.cog_adapt.devices import COUNT, FIRST, LAST, NEEDS_CUDA, NEEDS_TWO, PRECISIONS
from tests.cog_adapt.models import SHAPES, examples, inputs, labels
from tests.cog_adapt.runner.ticks import drained

pytestmark = NEEDS_CUDA
RECIPE = Recipe("all", max_steps=5, batch_size=4, seed=3, hold_out=0.3, learning_rate=0.02)


def model_of(shape, precision="fp32", device=LAST):
    torch.cuda.set_device(FIRST)
    settings = RunnerSettings(device=str(device), precision=precision)
    return LoadedModel(SHAPES[shape](), settings)


def run(model, shape, recipe=RECIPE, **more):
    torch.cuda.set_device(FIRST)
    return drained(model.adapting(examples(shape, 18), recipe, **more))[1]


def answered(model, shape, adapter=None):
    query = Query(inputs(shape), adapter, () if adapter else labels(shape))
    return torch.tensor(finished(model.predictions.part(query).working()))


def move_streams(*devices):
    """Draw from the random streams of the CPU and of devices, as other work may at any time."""
    for device in ("cpu", *devices):
        torch.rand(3, device=device)


def streams():
    return [torch.get_rng_state(), *torch.cuda.get_rng_state_all()]


def unlike(before, after):
    return [n for n, (a, b) in enumerate(zip(before, after, strict=True)) if not torch.equal(a, b)]


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("shape", ["images", "letters"])  # they have dropout
def test_a_run_draws_from_no_stream_of_the_process(shape, precision):
    model = model_of(shape, precision)
    ids = set()
    for _ in range(3):
        move_streams(*(torch.device("cuda", number) for number in range(COUNT)))
        before = streams()
        ids.add(run(model, shape).adapter.id)
        assert unlike(before, streams()) == []
    assert len(ids) == 1


def test_dropout_draws_from_the_seed_on_the_device():
    """Where it drew nothing, the test before would say nothing."""
    model = model_of("letters")
    first, other = (run(model, "letters", Recipe("all", max_steps=1, seed=n)) for n in (0, 1))
    assert first.report.steps[0].loss != other.report.steps[0].loss


@NEEDS_TWO
@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_first_device_is_not_touched_when_another_is_chosen(precision, tmp_path):
    gc.collect()  # what an earlier test left under way checks its base when it is dropped
    torch.cuda.reset_peak_memory_stats(FIRST)
    before, stream = torch.cuda.memory_allocated(FIRST), torch.cuda.get_rng_state(FIRST)
    model = model_of("letters", precision)
    done = whole_and_resumed(model, "letters", tmp_path)[0]
    save_adapter(done.adapter, tmp_path / "adapter.safetensors")
    adapter = load_adapter(tmp_path / "adapter.safetensors")
    answered(model, "letters"), answered(model, "letters", adapter)
    run(model, "letters", Recipe("auto", max_steps=2))
    assert torch.cuda.max_memory_allocated(FIRST) == before
    assert torch.equal(torch.cuda.get_rng_state(FIRST), stream)


def whole_and_resumed(model, shape, folder):
    """A run, and the same one resumed after its third step from the file of its state."""
    path = folder / "state"
    kept = []

    def save(state):
        kept.append(len(state.steps))
        if len(state.steps) == 3:
            save_state(state, path)

    whole = run(model, shape, checkpoints=Checkpoints(lambda: None, save, 1))
    assert kept == [1, 2, 3, 4, 5]
    move_streams(LAST)
    resuming = Checkpoints(lambda: load_state(path), lambda _: None, 1)
    return whole, run(model, shape, checkpoints=resuming)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_run_resumed_from_a_file_ends_in_the_same_bits(shape, precision, tmp_path):
    whole, resumed = whole_and_resumed(model_of(shape, precision), shape, tmp_path)
    assert resumed.adapter.id == whole.adapter.id
    assert resumed.report.scores == whole.report.scores
    losses = [[step.loss for step in done.report.steps] for done in (whole, resumed)]
    assert losses[0] == losses[1]


COMPUTED = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@pytest.mark.parametrize("precision", PRECISIONS)
def test_layers_compute_in_the_chosen_dtype_on_the_chosen_device(precision, monkeypatch):
    seen = set()
    forward = nn.Linear.forward

    def watched(layer, x):
        output = forward(layer, x)
        seen.add((output.dtype, output.device, torch.is_grad_enabled()))
        return output

    model = model_of("letters", precision)
    monkeypatch.setattr(nn.Linear, "forward", watched)
    adapter = run(model, "letters").adapter
    answered(model, "letters", adapter)
    assert seen == {(COMPUTED[precision], LAST, has_graph) for has_graph in (True, False)}


def test_a_gradient_too_small_for_float16_is_kept_by_the_scaler():
    model = model_of("letters", "fp16")
    small = Recipe("all", max_steps=1)
    usual = run(model, "letters", small).report.steps[0].gradient_norm
    model.task.fault = lambda losses: losses * 1e-7
    tiny = run(model, "letters", small).report.steps[0].gradient_norm
    assert tiny == pytest.approx(1e-7 * usual, rel=0.05)


@pytest.mark.parametrize("method", ["auto", "lora", "all"])
@pytest.mark.parametrize("shape", ["images", "letters"])
def test_scores_and_answers_are_those_of_the_cpu_nearly(shape, method):
    recipe = Recipe(method, max_steps=3, batch_size=18, hold_out=0.3)
    there, here = (model_of(shape, device=device) for device in (LAST, "cpu"))
    one, other = run(there, shape, recipe), run(here, shape, recipe)
    for a, b in zip(one.report.scores, other.report.scores, strict=True):
        assert a.loss == pytest.approx(b.loss, rel=0.01)
    torch.testing.assert_close(answered(there, shape), answered(here, shape), rtol=0.01, atol=0.01)


def test_a_model_on_the_device_learns_more_labels_from_its_own_adapter():
    model = model_of("letters")
    two = [example for example in examples("letters", 18) if example.target != "high"]
    first = drained(model.adapting(two, RECIPE))[1].adapter
    assert first.labels == ("low", "mid")
    more = run(model, "letters", begin=first).adapter
    assert set(more.labels) == {"low", "mid", "high"}
    assert {tensor.device.type for tensor in more.tensors.values()} == {"cpu"}
    assert answered(model, "letters", more).shape == (3, 3)
