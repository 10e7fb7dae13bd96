"""The promises on a CUDA device; skipped where there is none."""

import dataclasses
import gc

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from cog_adapt.runner.adaptation import methods
from cog_adapt.runner.adaptation.memory_estimate import Needed
from cog_adapt.runner.adaptation.report import Step
from cog_adapt.runner.adaptation.run import adapt
from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.errors import AdaptationError
from cog_adapt.runner.inference.answers import Query
from cog_adapt.runner.inference.label_tensors import finished
from cog_adapt.runner.inference.together import TOLERANCE, TOLERANCE_16_BIT, RowGroup
from cog_adapt.runner.model.loaded_model import LoadedModel
from gradient_check.phases.modes import casting
from gradient_check.phases.precision import Precision
from gradient_check.tests.models import Cancelled
from gradient_check.tests.present import present
from tests.cog_adapt.conftest import jobs_left, traces
from tests.cog_adapt.devices import LAST, NEEDS_CUDA, PRECISIONS
from tests.cog_adapt.mixed import Encoder, adapter, loaded
from tests.cog_adapt.models import SHAPES, Caching, Letters, examples, inputs, labels
from tests.cog_adapt.runner.adaptation.test_memory_estimate import Wide
from tests.cog_adapt.texts import Texts

pytestmark = NEEDS_CUDA


@pytest.fixture
def gpu(make_runner):
    def make(task, **settings):
        return make_runner(task, **{"device": "cuda", **settings})

    return make


@pytest.mark.parametrize("shape", SHAPES)
def test_the_base_is_on_the_device_and_an_adapter_on_the_cpu(gpu, shape):
    runner = gpu(SHAPES[shape]())
    base = runner.model.base.module
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
    counts, waits = [], 0
    for _ in range(20):
        with CopiesToHost() as copies:
            taken = next(ticks, None)
        waits += copies.count  # an attempt that float16 voids is a tick of its own, and waits too
        if isinstance(taken, Step):
            counts.append(waits - taken.skipped)
            waits = 0
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
    runner.adapt(examples("caching"))  # the first one leaves what later ones use
    before = allocated()
    runner.model.task.fault = lambda losses: losses + torch.empty(2**50, device="cuda").sum()
    with pytest.raises(AdaptationError, match="memory ran out .*smaller batch_size") as caught:
        runner.adapt(examples("caching"))
    runner.model.task.fault = None
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


def mixed_queries(model):
    """Queries of three adapters and of the base, each made ready."""
    queries = [Query([f"word{n}", "a" * n], adapter(model, n, labels=1 + n)) for n in (1, 2, 3)]
    queries.append(Query(["base", "abcdef"], None, ("x", "y")))
    parts = [model.predictions.part(query) for query in queries]
    for part in parts:
        finished(model.predictions.modules.serving(part.query))
    return parts


def alone(model, part):
    return torch.cat(
        [torch.tensor(row) for row in finished(model.predictions.part(part.query).working())]
    )


class OnOneDevice(TorchDispatchMode):
    """Notes the devices of every tensor that an operation takes or gives, besides numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.devices: dict[str, set[str]] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        given = func(*args, **(kwargs or {}))
        tensors = [t for t in tree_leaves((args, kwargs, given)) if isinstance(t, torch.Tensor)]
        for tensor in (t for t in tensors if t.dim()):
            self.devices.setdefault(str(tensor.device), set()).add(str(func))
        return given


CROSSING = {"aten._to_copy.default", "aten.copy_.default", "aten.detach.default"}
CROSSING |= {"aten.to.dtype_layout"}  # the same in inference mode


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_queries_of_several_adapters_share_a_forward_and_are_answered_as_alone(precision):
    model = loaded(device="cuda", precision=precision)
    first, *others = mixed_queries(model)
    assert len(first.run_with(others)) == 4
    limit = TOLERANCE if precision == "fp32" else TOLERANCE_16_BIT
    for part in (first, *others):
        expected = alone(model, part)
        answers = torch.cat([torch.tensor(row) for row in part.answers])
        most = limit * max(1.0, float(expected.abs().max()))
        torch.testing.assert_close(answers, expected, rtol=0, atol=most)
    assert model.base.census.changes(model.base.module) == []


def test_a_shared_forward_computes_on_the_chosen_device_alone():
    device = LAST  # not the current one, where there are several
    model = loaded(device=str(device), precision="fp32")
    first, *others = mixed_queries(model)
    first.run_with(others)  # compared; the next one is not
    first, *others = mixed_queries(model)
    structure = model.predictions.shared.structure(
        present(model.predictions.modules.ready(first.query))
    )
    pieces = [
        RowGroup(part.query.inputs, present(model.predictions.modules.ready(part.query)), None)
        for part in (first, *others)
    ]
    batch = model.task.encode([text for piece in pieces for text in piece.inputs])
    moved = {name: tensor.to(device) for name, tensor in batch.items()}
    with OnOneDevice() as noted:
        answers = model.predictions.shared.answer(present(structure), pieces, moved)
    assert [len(some) for some in answers] == [2, 2, 2, 2]
    assert noted.devices.keys() <= {str(device), "cpu"}
    assert noted.devices.get("cpu", set()) <= CROSSING  # what is read, and rows' numbers
    for module in (
        *model.predictions.shared.replicas.values(),
        *(p.served.module for p in pieces),
    ):
        tensors = (*module.parameters(), *module.buffers())
        assert {tensor.device for tensor in tensors} == {device}


def test_what_is_ready_on_the_device_counts_its_bytes_and_goes():
    model = loaded(device="cuda", precision="fp32")
    modules, parts = model.predictions.modules, mixed_queries(model)
    served = modules.served
    assert served.bytes > 0
    before = allocated()
    for adapter_id in [present(modules.ready(part.query)).id for part in parts]:
        served.forget(adapter_id)
    assert allocated() < before
    assert served.bytes == 0


def test_the_estimate_of_an_adaptation_is_near_what_it_takes_on_the_device():
    model = LoadedModel(Wide(), RunnerSettings(device="cuda", precision="fp32"))
    for method in ("all", "lora"):
        work = model.adapting(
            examples("images", 1000), Recipe(method, max_steps=2, batch_size=1000)
        )
        needed = next(progress for progress in work if isinstance(progress, Needed))
        before = allocated()
        torch.cuda.reset_peak_memory_stats()
        for _ in work:
            continue
        peak = torch.cuda.max_memory_allocated() - before
        assert peak < needed.bytes < 2 * peak


def test_memory_that_runs_out_in_a_shared_forward_halves_its_rows():
    model = loaded(device="cuda", precision="fp32")
    first, *others = mixed_queries(model)
    model.predictions.shared.proven.add(
        present(
            model.predictions.shared.structure(
                present(model.predictions.modules.ready(first.query))
            )
        )
    )
    forward = Encoder.forward

    def hungry(module, batch):
        if len(batch["ids"]) > 4:
            torch.empty(2**50, device="cuda")
        return forward(module, batch)

    model.base.template.__class__ = type("Hungry", (Encoder,), {"forward": hungry})
    first.run_with(others)
    assert not first.done
    assert finished(first.working())
    again, *rest = mixed_queries(model)
    assert len(again.run_with(rest)) == 2  # four of the eight rows
    assert again.done
