"""The blocks of a private replica run compiled, where that is asked for."""

import gc
import logging
import weakref
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounter

from cog_adapt.runner.adaptation import compiling
from cog_adapt.runner.adaptation.compiling import compile_blocks, may_compile
from cog_adapt.runner.adaptation.start import adamw
from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.errors import SetupError
from cog_adapt.runner.inference.label_tensors import finished
from cog_adapt.runner.model.loaded_model import LoadedModel
from cog_adapt.runner.selftest.run import run_at_start
from gradient_check.phases.checkpointing import blocks, recompute_blocks
from gradient_check.phases.gradient_step import GradientStep
from gradient_check.phases.precision import Precision
from gradient_check.tests.models import ConvNet, TinyTransformer, seeded_module
from tests.cog_adapt.models import Letters, examples

# torch's own tracing looks at the gradient of what is no leaf, and warns itself; what it imports
# where there is a CUDA device is deprecated by torch itself.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor"),
    pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated"),
]
IDS = torch.tensor([[1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1]])


@pytest.fixture
def compiler(monkeypatch):
    """A compiler that counts its graphs and takes no time."""
    counter = CompileCounter()
    monkeypatch.setattr(compiling, "BACKEND", counter)
    torch.compiler.reset()
    yield counter
    torch.compiler.reset()


@pytest.fixture
def make():
    """Makes models whose blocks have a class of this test's own: none was compiled before."""
    kinds: dict[type, Any] = {}

    def model():
        module = seeded_module(TinyTransformer)
        for block in blocks(module):
            kind = type(block)
            own = kinds.setdefault(kind, type(kind.__name__, (kind,), {}))
            block.__class__ = own
        return module

    return model


def steps_of(module, number=3):
    step = GradientStep(
        module,
        lambda replica, ids: replica(ids)[0].square().mean(-1),
        adamw(Recipe(), 0.01),
        Precision(torch.device("cpu")),
        frozenset(),
    )
    return [step(IDS, seed) for seed in range(number)]


def test_steps_are_those_of_blocks_that_are_not_compiled(compiler, make):
    plain, compiled = make(), make()
    assert compile_blocks(compiled) == 2
    expected, found = steps_of(plain), steps_of(compiled)
    assert compiler.frame_count > 0
    for one, other in zip(expected, found, strict=True):
        assert other.loss == pytest.approx(one.loss, rel=1e-5)
        assert other.gradient_norm == pytest.approx(one.gradient_norm, rel=1e-4)


def test_later_replicas_find_what_was_compiled(compiler, make):
    for number in range(12):  # more than torch compiles one function for
        module = make()
        compile_blocks(module)
        steps_of(module, 1)
        if number == 0:
            compiled = compiler.frame_count
    assert compiler.frame_count == compiled


def test_blocks_are_compiled_and_recomputed_at_once(compiler, make):
    plain, both = make(), make()
    compile_blocks(both)
    recompute_blocks(both)
    for one, other in zip(steps_of(plain), steps_of(both), strict=True):
        assert other.gradient_norm == pytest.approx(one.gradient_norm, rel=1e-4)
    assert compiler.frame_count > 0


def test_a_block_that_cannot_be_compiled_runs_as_it_is(make, monkeypatch, caplog):
    def broken(*_):
        raise ValueError("no such compiler")

    monkeypatch.setattr(compiling, "BACKEND", broken)
    plain, compiled = make(), make()
    compile_blocks(compiled)
    with caplog.at_level(logging.WARNING):
        found = steps_of(compiled)
    assert found == steps_of(plain)
    assert "Block runs without torch.compile" in caplog.text
    assert "no such compiler" in caplog.text


def test_a_model_without_blocks_is_left_as_it_is():
    assert compile_blocks(seeded_module(ConvNet)) == 0


def test_a_dropped_replica_is_freed_at_once(compiler, make):
    gc.disable()
    try:
        module: nn.Module | None = make()
        assert module is not None
        compile_blocks(module)
        freed = weakref.ref(module)
        module = None
        assert freed() is None
    finally:
        gc.enable()


def test_a_cpu_refuses_what_would_break_its_promise_of_the_same_bits():
    assert may_compile(True, torch.device("cuda"))
    assert not may_compile(False, torch.device("cpu"))
    with pytest.raises(SetupError, match="COMPILE_BLOCKS is on, but compiled code does not keep"):
        LoadedModel(Letters(), RunnerSettings(device="cpu", compile_blocks=True))


@pytest.fixture
def compiling_model(monkeypatch, compiler, make):
    """A model whose steps are compiled, on a CPU."""
    monkeypatch.setattr(Letters, "module", lambda _: make())
    monkeypatch.setattr("cog_adapt.runner.model.loaded_model.may_compile", lambda wanted, _: wanted)
    return LoadedModel(Letters(), RunnerSettings(device="cpu", compile_blocks=True))


def test_an_adaptation_takes_compiled_steps(compiling_model, compiler):
    recipe, given = Recipe(method="lora", max_steps=3), examples("letters")
    found: Any = finished(compiling_model.adapting(given, recipe)).adapter
    assert compiler.frame_count > 0
    plain = LoadedModel(Letters(), RunnerSettings(device="cpu"))
    expected: Any = finished(plain.adapting(given, recipe)).adapter
    assert found.tensors.keys() == expected.tensors.keys()
    for name, tensor in found.tensors.items():
        torch.testing.assert_close(tensor, expected.tensors[name], rtol=1e-3, atol=1e-5)


def test_a_start_takes_a_compiled_step_at_either_level(compiling_model, compiler, tmp_path):
    settings = RunnerSettings(device="cpu", weights_dir=tmp_path, compile_blocks=True)
    for level in ("full", "quick"):
        torch.compiler.reset()
        compiler.frame_count = 0
        report = run_at_start(compiling_model, settings)
        assert (report.level, report.passed) == (level, True)
        assert compiler.frame_count > 0
