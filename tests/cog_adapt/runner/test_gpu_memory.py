"""What memory of a device is held, counted and given back; skipped where there is none."""

import gc
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from cog_adapt.runner.adaptation.run import adapt
from cog_adapt.runner.adaptation.start import Checkpoints
from cog_adapt.runner.adaptation.training_state import load_state, save_state
from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.errors import AdaptationError, PredictionError
from cog_adapt.runner.inference.answers import Query
from cog_adapt.runner.inference.label_tensors import finished
from cog_adapt.runner.inference.served_adapters import ServedAdapters
from cog_adapt.runner.model.loaded_model import LoadedModel
from gradient_check.tests.models import LABELS
from tests.cog_adapt.mixed import Mixed, adapter
from tests.cog_adapt.models import Caching, examples, inputs, labels
from tests.cog_adapt.runner.adaptation.test_memory_estimate import Wide
from tests.cog_adapt.runner.ticks import drained
from tests.cog_adapt.texts import Texts

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device answers here"),
]
ROUNDED = 512  # the allocator rounds each tensor up to so many bytes
LAST = f"cuda:{torch.cuda.device_count() - 1}" if torch.cuda.is_available() else "cuda"


def loaded(task, **settings):
    return LoadedModel(task, RunnerSettings(device=LAST, precision="fp32", **settings))


def allocated():
    gc.collect()
    torch.cuda.synchronize(LAST)
    return torch.cuda.memory_allocated(LAST)


def peak_of(work: Any) -> int:
    before = allocated()
    torch.cuda.reset_peak_memory_stats(LAST)
    drained(work)
    return torch.cuda.max_memory_allocated(LAST) - before


def test_saving_a_checkpoint_leaves_the_peak_as_it_is():
    model = loaded(Wide())
    recipe = Recipe("all", max_steps=4)
    states: list[Any] = []
    saving = Checkpoints(load=lambda: None, save=states.append, every=1)
    given = (examples("images"), recipe, None)
    peak = peak_of(model.adapting(*given))
    assert peak_of(model.adapting(*given, saving)) == peak
    assert len(states) == 4
    kept = (*states[-1].tensors.values(), *states[-1].optimizer.values())
    assert {tensor.device.type for tensor in kept} == {"cpu"}


class Uploads(TorchDispatchMode):
    """Counts the copies to a device, and those of them that wait for it."""

    count = waits = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        tensors = [each for each in args if torch.is_tensor(each)]
        if func.overloadpacket.__name__ in {"_to_copy", "copy_"}:
            is_upload = result.is_cuda and not tensors[-1].is_cuda
            self.count += is_upload
            self.waits += is_upload and (kwargs or {}).get("non_blocking") is not True
        return result


@pytest.mark.parametrize("blocks", [0, 1])
def test_a_step_waits_for_no_upload(blocks):
    model = loaded(Texts())
    rows = [Example("abcdefghijklmnopqrst"[: 2 + n % 17], LABELS[n % 3]) for n in range(15)]
    start = model.start(rows, Recipe("lora", max_steps=4, batch_size=6, blocks=blocks))
    ticks = adapt(replace(start, data=replace(start.data, weights=[1.0, 2.0, 3.0] * 5)))
    steps = 0
    while steps < 3:
        with Uploads() as uploads:
            taken = next(ticks)
        if taken:
            steps += 1
            assert uploads.count > 0
            assert uploads.waits == 0
    ticks.close()


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_run_goes_on_from_a_checkpoint_on_the_device_as_if_never_stopped(tmp_path, precision):
    model = LoadedModel(Caching(), RunnerSettings(device=LAST, precision=precision))
    recipe, path = Recipe("all", max_steps=6, batch_size=4, hold_out=0.3), tmp_path / "state"
    rows = examples("caching", 18)
    whole = drained(model.adapting(rows, recipe))[1]
    states: list[Any] = []
    drained(model.adapting(rows, recipe, None, Checkpoints(lambda: None, states.append, 3)))
    save_state(states[0], path)
    torch.cuda.manual_seed_all(99)  # nothing may depend on the process's own streams
    torch.manual_seed(98)
    going_on = Checkpoints(lambda: load_state(path), lambda _: None, 3)
    again = drained(model.adapting(rows, recipe, None, going_on))[1]
    assert len(states[0].steps) == 3
    assert again.adapter.id == whole.adapter.id


def test_memory_that_ran_out_goes_back_before_its_caller_is_told(make_runner, monkeypatch):
    runner = make_runner(Caching(), device=LAST)
    work = {
        PredictionError: lambda: runner.predict(inputs("caching"), None, labels("caching")),
        AdaptationError: lambda: runner.adapt(examples("caching"), Recipe(max_steps=2)),
    }
    answer, _ = work[PredictionError](), work[AdaptationError]()
    before, freed = allocated(), []

    def hungry(*_):
        held = torch.ones(2**20, device=LAST)
        torch.empty(2**50, device=LAST)
        del held

    with monkeypatch.context() as patched:
        patched.setattr(
            torch.cuda, "empty_cache", lambda: freed.append(torch.cuda.memory_allocated(LAST))
        )
        patched.setattr(Caching, "predict", hungry)
        runner.model.task.fault = hungry
        for kind, run in work.items():
            with pytest.raises(kind, match="memory ran out"):
                run()
    runner.model.task.fault = None
    assert len(freed) == 3  # a step is taken once more in smaller parts
    assert max(freed) < before + 2**20  # the activations were gone before the cache was freed
    assert allocated() == before
    assert (runner.health(), work[PredictionError]()) == ((), answer)
    assert work[AdaptationError]().report.steps


class Buffered(Mixed):
    """Its module keeps a table in a buffer, of which every replica has a copy."""

    def load(self):
        module = super().load()
        module.register_buffer("table", torch.zeros(4096))
        return module


@pytest.mark.parametrize("task", [Mixed, Buffered])
def test_what_a_served_adapter_takes_on_the_device_is_what_is_counted(task):
    model = loaded(task())
    served = ServedAdapters(model.base.template, model.base.precision, limit=9, most_bytes=2**30)
    before = allocated()
    made = [served.get(str(number), partial(adapter, model, number)) for number in (1, 2, 3)]
    most = served.bytes + ROUNDED * sum(len(each.tensors) for each in made)
    assert allocated() - before <= most
    for each in made:
        assert not each.module.training  # made when the adapter first answers alone
    assert served.bytes <= allocated() - before <= most


def test_adapters_are_let_go_by_their_bytes():
    model = loaded(Mixed())
    one = adapter(model, 1).nbytes
    served = ServedAdapters(model.base.template, model.base.precision, limit=9, most_bytes=2 * one)
    before = allocated()
    for number in range(5):
        tensors = 2 * len(served.get(str(number), partial(adapter, model, number)).tensors)
    assert (len(served), served.bytes) == (2, 2 * one)
    assert allocated() - before <= served.bytes + ROUNDED * tensors


def test_memory_that_runs_out_in_a_shared_forward_goes_back(monkeypatch):
    model = loaded(Mixed())
    queries = [Query(["abc"], adapter(model, number)) for number in (1, 2)]
    first, other = (model.predictions.part(query) for query in queries)
    for part in (first, other):
        finished(model.predictions.modules.serving(part.query))
    freed: list[int] = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: freed.append(1))

    def hungry(*_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    with monkeypatch.context() as patched:
        patched.setattr(Mixed, "predict", hungry)
        first.run_with([other])
    assert freed == [1]
    assert finished(first.working())
