"""The promises on a CUDA device; skipped where there is none."""

import dataclasses
import gc

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from cog_adapt.runner import methods
from cog_adapt.runner.adaptation import adapt
from cog_adapt.runner.config import Precision, Recipe, RunnerSettings
from cog_adapt.runner.errors import AdaptationError
from cog_adapt.runner.examples import Example
from cog_adapt.runner.loaded_model import LoadedModel
from cog_adapt.runner.modes import casting
from tests.cog_adapt.conftest import jobs_left, traces
from tests.cog_adapt.models import SHAPES, Caching, Cancelled, Letters, examples, inputs, labels
from tests.cog_adapt.texts import Texts

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device answers here"),
]
PRECISIONS = ["fp32", "bf16", "fp16"]


@pytest.fixture
def gpu(make_runner):
    def make(task, **settings):
        return make_runner(task, **{"device": "cuda", **settings})

    return make


@pytest.mark.parametrize("shape", SHAPES)
def test_the_base_is_on_the_device_and_an_adapter_on_the_cpu(gpu, shape):
    runner = gpu(SHAPES[shape]())
    base = runner._model.base
    assert {t.device.type for t in (*base.parameters(), *base.buffers())} == {"cuda"}
    adapter = runner.adapt(examples(shape), Recipe(max_steps=2)).adapter
    assert {t.device.type for t in adapter.tensors.values()} == {"cpu"}
    assert len(runner.predict(inputs(shape), adapter)) == 3


def test_auto_takes_bfloat16_where_the_device_has_it(gpu):
    native = torch.cuda.is_bf16_supported(including_emulation=False)
    expected = torch.bfloat16 if native else torch.float32
    assert gpu(Letters(), device="auto").precision.compute is expected


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_seed_gives_the_same_bits_and_leaves_no_trace(gpu, shape, precision):
    runner = gpu(SHAPES[shape](), precision=precision)
    recipe = Recipe("all", max_steps=5, batch_size=4, seed=3, hold_out=0.3, learning_rate=0.02)
    answer = runner.predict(inputs(shape), None, labels(shape))
    before, stream = traces(runner), torch.cuda.get_rng_state()
    ids = {runner.adapt(examples(shape, 18), recipe).adapter.id for _ in range(3)}
    assert len(ids) == 1
    assert traces(runner) == before
    assert torch.equal(torch.cuda.get_rng_state(), stream)
    assert runner.predict(inputs(shape), None, labels(shape)) == answer


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_loss_falls(gpu, shape, precision):
    runner = gpu(SHAPES[shape](), precision=precision)
    done = runner.adapt(examples(shape, 12), Recipe("all", max_steps=60, learning_rate=0.02))
    assert done.report.steps[-1].loss < 0.6 * done.report.steps[0].loss


@pytest.mark.parametrize("shape", ["letters", "caching", "lazy"])
def test_checkpointing_changes_no_bit(gpu, shape):
    runner = gpu(SHAPES[shape](), precision="fp32")
    ids = {
        runner.adapt(examples(shape), Recipe("all", max_steps=3, checkpointing=on)).adapter.id
        for on in (False, True)
    }
    assert len(ids) == 1


TEXTS = [Example("abcdefghijklmnopqrst"[: 2 + n % 17], labels("letters")[n % 3]) for n in range(15)]
LAST_BLOCK = Recipe("lora", max_steps=6, batch_size=6, hold_out=0.3, blocks=1, learning_rate=0.02)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("side", ["right", "left"])
def test_a_kept_trunk_repeats_and_is_the_whole_run(gpu, precision, side, monkeypatch):
    runner = gpu(Texts(side), precision=precision)
    one, same = (runner.adapt(TEXTS, LAST_BLOCK) for _ in range(2))
    assert one.report.trunk == "2 frozen blocks ran once for each example"
    assert one.adapter.id == same.adapter.id
    monkeypatch.setattr(Texts, "blocks", "(?!)")
    monkeypatch.setattr(methods, "last_blocks", lambda *_: ["blocks.2"])
    whole = runner.adapt(TEXTS, LAST_BLOCK).adapter.tensors
    limit = 1e-4 if precision == "fp32" else 0.05
    for name, tensor in one.adapter.tensors.items():
        assert torch.allclose(tensor, whole[name], rtol=limit, atol=limit), name


class CopiesToHost(TorchDispatchMode):
    """Counts what waits for the device."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        name, tensors = func.overloadpacket.__name__, [a for a in args if torch.is_tensor(a)]
        if name == "_local_scalar_dense":
            self.count += tensors[0].is_cuda
        elif name in {"_to_copy", "copy_"}:
            self.count += tensors[-1].is_cuda and not result.is_cuda
        return result


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("recipe", [LAST_BLOCK, Recipe("all", max_steps=6, batch_size=6)])
def test_a_step_waits_for_the_device_once(precision, recipe):
    model = LoadedModel(Texts(), RunnerSettings(device="cuda", precision=precision))
    ticks = adapt(model.start(TEXTS, dataclasses.replace(recipe, hold_out=0.0)))
    counts = []
    for _ in range(12):
        with CopiesToHost() as copies:
            taken = next(ticks, None)
        counts += [copies.count - taken.skipped] if taken else []  # a voided attempt waits too
    ticks.close()
    assert counts[1:5] == [1] * 4  # the first step makes the optimizer's state


def test_lengths_on_the_device_are_few(gpu, monkeypatch):
    widths = set()
    loss = Texts.loss

    def watched(self, module, batch, targets):
        widths.add(batch["ids"].shape[1])
        return loss(self, module, batch, targets)

    monkeypatch.setattr(Texts, "loss", watched)
    gpu(Texts()).adapt(TEXTS, Recipe("all", max_steps=10, batch_size=2))
    assert widths <= {16, 18}  # of 2 to 18 letters


def test_the_cast_cache_is_off_on_the_device():
    with casting(Precision(torch.device("cuda", 0), torch.bfloat16)):
        assert torch.is_autocast_enabled("cuda")
        assert not torch.is_autocast_cache_enabled()


def allocated():
    gc.collect()
    torch.cuda.synchronize()
    return torch.cuda.memory_allocated()


def test_a_cancelled_adaptation_gives_its_memory_back(gpu):
    runner = gpu(Letters())
    runner.adapt(examples("letters"), Recipe("all", max_steps=2))
    before = allocated()

    def cancel(step):
        assert torch.cuda.memory_allocated() > before
        raise Cancelled

    for _ in range(5):
        with pytest.raises(Cancelled):
            runner.adapt(examples("letters"), Recipe("all", max_steps=100_000), cancel)
        assert jobs_left(runner) == 0
        assert allocated() == before


def test_running_out_of_device_memory_is_told_and_the_runner_goes_on(gpu):
    runner = gpu(Caching())
    answer = runner.predict(inputs("caching"), None, labels("caching"))
    before = allocated()
    runner._model.task.fault = lambda losses: losses + torch.empty(2**50, device="cuda").sum()
    with pytest.raises(AdaptationError, match="memory ran out .*smaller batch_size") as caught:
        runner.adapt(examples("caching"))
    runner._model.task.fault = None
    del caught
    assert jobs_left(runner) == 0
    assert allocated() == before
    assert runner.predict(inputs("caching"), None, labels("caching")) == answer
    assert runner.adapt(examples("caching"), Recipe(max_steps=1)).report.steps


def test_an_adapter_made_on_the_device_serves_on_the_cpu(gpu, make_runner):
    runner, other = gpu(Letters(), precision="fp32"), make_runner(Letters())
    assert runner.base == other.base
    adapter = runner.adapt(examples("letters"), Recipe("all", max_steps=5)).adapter
    there = torch.tensor(runner.predict(inputs("letters"), adapter))
    here = torch.tensor(other.predict(inputs("letters"), adapter))
    torch.testing.assert_close(there, here, rtol=1e-3, atol=1e-3)
