"""What an adaptation needs is estimated before its first step, near to what it takes."""

import gc
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cog_adapt.runner.adaptation.memory_estimate import MemoryEstimates, Needed
from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.model.loaded_model import LoadedModel
from gradient_check.tests.models import LABELS
from tests.cog_adapt.models import Caching, Labelled, examples
from tests.cog_adapt.texts import Texts

FACTOR = 2.0  # docs/adaptation.md
_WIDE = 1024


class WideNet(nn.Module):
    """Three wide layers, so that tensors outweigh all else."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, _WIDE)
        self.layers = nn.ModuleList([nn.Linear(_WIDE, _WIDE) for _ in range(3)])
        self.head = nn.Linear(_WIDE, len(LABELS))

    def forward(self, x):
        hidden = self.first(x)
        for layer in self.layers:
            hidden = F.gelu(layer(hidden))
        return self.head(hidden)


class Wide(Labelled):
    """Rows of numbers in, one of a label set out."""

    width = _WIDE
    part_tokens = 10**6  # a batch is one part

    def module(self) -> nn.Module:
        return WideNet()


def loaded(task) -> LoadedModel:
    return LoadedModel(task, RunnerSettings(device="cpu"))


def needed_and_peak(model, rows, recipe) -> tuple[Needed, int]:
    """What an adaptation says that it needs, and the most that its tensors took afterwards."""
    work: Any = model.adapting(rows, recipe)
    needed = next(progress for progress in work if isinstance(progress, Needed))
    gc.collect()  # what is freed meanwhile is subtracted, if an earlier profile has counted it
    cpu = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=cpu, profile_memory=True) as profile:
        for _ in work:
            continue
    now = peak = 0
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            peak = max(peak, now)
    return needed, peak


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe("all", max_steps=2, batch_size=1000),
        Recipe("lora", max_steps=2, batch_size=1000),
        Recipe("lora", max_steps=2, batch_size=1000, hold_out=0.2),
        Recipe("all", max_steps=2, batch_size=8, ema=0.9),
    ],
    ids=str,
)
def test_the_estimate_of_a_small_task_is_near_what_the_steps_take(recipe):
    needed, peak = needed_and_peak(loaded(Wide()), examples("images", 1000), recipe)
    assert peak > 20 * 2**20
    assert peak < needed.bytes < FACTOR * peak


@pytest.mark.parametrize("method", ["lora", "all"])
def test_the_estimate_of_the_packaged_model_is_near_what_the_steps_take(method):
    task = pytest.importorskip("task", reason="the shipped task is not here")
    rows = [Example(f"where is my parcel {n} " * 6, "ab"[n % 2]) for n in range(16)]
    recipe = Recipe(method, max_steps=1, batch_size=16)
    needed, peak = needed_and_peak(loaded(task.TextClassification()), rows, recipe)
    assert peak < needed.bytes < FACTOR * peak


def estimate(model, rows, estimates=None, **recipe) -> Needed:
    return (estimates or MemoryEstimates()).of(model.start(rows, Recipe(**recipe)))


def test_a_batch_takes_as_much_for_each_row_and_no_more_rows_than_there_are():
    model, rows = loaded(Wide()), examples("images", 64)
    small, large = (estimate(model, rows, method="all", batch_size=n) for n in (16, 32))
    least = estimate(model, rows[:2], method="head", batch_size=1).activations
    assert large.activations - least == pytest.approx(2 * (small.activations - least), rel=0.05)
    assert estimate(model, rows, method="all", batch_size=4096).rows == 64


@pytest.mark.parametrize(("changes", "rows"), [({"part_tokens": 4}, 4), ({}, 64)])
def test_a_batch_that_is_cut_takes_the_memory_of_a_part(monkeypatch, changes, rows):
    for name, value in changes.items():
        monkeypatch.setattr(Wide, name, value)
    needed = estimate(loaded(Wide()), examples("images", 64), method="all", batch_size=64)
    assert needed.rows == rows


def test_a_batch_whose_rows_depend_on_each_other_counts_whole(monkeypatch):
    monkeypatch.setattr(Wide, "part_tokens", 4)
    monkeypatch.setattr(Wide, "rows_are_independent", False)
    needed = estimate(loaded(Wide()), examples("images", 64), method="all", batch_size=64)
    assert needed.rows == 64


def test_a_longer_example_is_measured_and_a_shorter_one_has_its_share():
    task, estimates = Texts(), MemoryEstimates()
    model = loaded(task)
    short, long = (
        [Example(text * n, label) for n, label in ((5, "low"), (6, "high"))]
        for text in ("abc", "abcdefgh" * 40)
    )
    first = estimate(model, short, estimates, method="all")
    most = estimate(model, long, estimates, method="all")
    assert most.activations > 10 * (first.activations - 8 * 2**20)
    calls: list[int] = []

    def noted(losses: Tensor) -> Tensor:
        calls.append(1)
        return losses

    task.fault = noted
    again = estimate(model, short, estimates, method="all")
    assert not calls
    assert first.activations <= again.activations < most.activations
    estimate(model, [Example("abcdefgh" * 400, "low")] * 2, estimates, method="all")
    assert calls == [1]


def test_recomputed_blocks_keep_less():
    model = loaded(Texts())
    rows = [Example("abcdefgh" * 40, label) for label in LABELS for _ in range(20)]
    whole = estimate(model, rows, method="all", batch_size=64)
    less = estimate(model, rows, method="all", batch_size=64, checkpointing=True)
    assert less.activations < whole.activations


def test_outputs_of_frozen_blocks_count():
    model = loaded(Texts())
    rows = [Example("abcdefgh" * 9, label) for label in LABELS for _ in range(20)]
    all_blocks = estimate(model, rows, method="lora")
    last = estimate(model, rows, method="lora", blocks=1)
    assert last.kept - all_blocks.kept == 60 * 72 * 8 * 4  # examples, tokens, width, bytes
    assert last.activations < all_blocks.activations


def test_the_parts_add_up_and_are_named():
    needed = Needed(2**30, 2 * 2**30, 4 * 2**30, 8 * 2**30, 7)
    assert needed.bytes == 15 * 2**30
    assert str(needed).startswith("15 GB (1 GB of parameters, 2 GB of gradients and optimizer")
    assert "4 GB of activations of 7 examples at once" in str(needed)


def graphs():
    """Tensors that keep a graph alive; those in a cycle of Python's are collected before."""
    gc.collect()
    kinds = (o for o in gc.get_objects() if issubclass(type(o), Tensor))
    return sum(tensor.grad_fn is not None for tensor in kinds)


def test_the_forward_that_is_measured_leaves_nothing():
    """An output that a graph's own saved values hold is in a cycle that Python cannot see."""
    model = loaded(Caching())
    before = graphs()
    assert MemoryEstimates().of(model.start(examples("caching"), Recipe("all"))).activations
    assert graphs() == before
