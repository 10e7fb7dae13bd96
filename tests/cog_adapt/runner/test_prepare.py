"""What the base computes of an example once (`Task.prepare`) is what the loss gets at each step."""

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cog_adapt import Batch, Example, InputError, Recipe, RunnerSettings, Task
from cog_adapt.runner.inference.label_tensors import finished
from cog_adapt.runner.model.loaded_model import LoadedModel
from cog_adapt.runner.selftest.run import run_self_test
from gradient_check.phases.errors import GradientFlowError
from gradient_check.tests.models import seeded_module
from gradient_check.tests.present import present
from tests.cog_adapt.devices import DEVICE

ROWS = [Example([0.1 * n, 1.0, -0.2 * n, 0.5], 0.3 * n) for n in range(8)]
RECIPE = Recipe(max_steps=6, batch_size=4, repeats=2, hold_out=0.25, learning_rate=0.01)


class Latent(nn.Module):
    """Maps four numbers to three, and those to one."""

    def __init__(self) -> None:
        super().__init__()
        self.vae = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5))
        self.body = nn.Linear(3, 1)


class Encoding(Task):
    """Encodes in the loss, at each step."""

    method = "match:body.*"
    unused = r"vae\..*"

    def load(self) -> nn.Module:
        return seeded_module(Latent)

    def encode(self, inputs: Any) -> Batch:
        return {"x": torch.tensor(inputs)}

    def latents(self, module: Any, x: Tensor) -> Tensor:
        return frozen_latents(module, x)

    def loss(self, module: Any, batch: Batch, targets: Tensor) -> Tensor:
        return (module.body(self.latents(module, batch["x"])).squeeze(1) - targets).square()

    def predict(self, module: Any, batch: Batch, *_: Any) -> list[Any]:
        return [*module.body(frozen_latents(module, batch["x"])).squeeze(1).tolist()]

    def probe(self) -> list[Example]:
        return ROWS[:2]


def frozen_latents(module: Any, x: Tensor) -> Tensor:
    """Encode without dropout and without a gradient."""
    weight, bias = module.vae[0].weight.detach(), module.vae[0].bias.detach()
    return nn.functional.linear(x, weight, bias)


class Preparing(Encoding):
    """Encodes once, by the base."""

    def __init__(self) -> None:
        self.calls = Counter[tuple[float, ...]]()

    def prepare(self, module: Any, batch: Batch, targets: Tensor) -> tuple[Batch, Tensor]:
        assert not torch.is_grad_enabled()
        assert not module.training
        self.calls.update(tuple(row) for row in batch["x"].tolist())
        return {"latent": module.vae(batch["x"])}, targets

    def loss(self, module: Any, batch: Batch, targets: Tensor) -> Tensor:
        return (module.body(batch["latent"]).squeeze(1) - targets).square()


class Cut(Preparing):
    """The same, in steps of several parts, whose rows are first compared alone."""

    part_tokens = 4


class Ragged(Preparing):
    """Prepares rows of two lengths."""

    def prepare(self, module: Any, batch: Batch, targets: Tensor) -> tuple[Batch, Tensor]:
        prepared, targets = super().prepare(module, batch, targets)
        length = 2 + int(targets[0] > 1)
        return {name: t[:, :length] for name, t in prepared.items()}, targets

    def loss(self, module: Any, batch: Batch, targets: Tensor) -> Tensor:
        return batch["latent"].sum(1) * module.body.weight.sum()


def adapted(task: Task, recipe: Recipe = RECIPE) -> Any:
    model = LoadedModel(task, RunnerSettings(device=DEVICE, precision="fp32"))
    return present(finished(model.adapting(ROWS, recipe)))


def test_the_loss_gets_what_the_base_prepares() -> None:
    once, each = adapted(Preparing()), adapted(Encoding())
    for name, tensor in each.adapter.tensors.items():
        torch.testing.assert_close(once.adapter.tensors[name], tensor, rtol=0.0, atol=1e-6)
    assert [s.loss for s in once.report.scores] == pytest.approx(
        [s.loss for s in each.report.scores], abs=1e-6
    )


def test_an_example_is_prepared_once_however_many_steps_there_are() -> None:
    counts = []
    for steps in (1, 40):
        task = Preparing()
        adapted(task, Recipe(max_steps=steps, batch_size=8, learning_rate=0.01))
        counts.append(task.calls)
    assert counts[0] == counts[1]
    assert len(counts[0]) == len(ROWS)


@pytest.mark.parametrize("kind", [Preparing, Cut])
def test_a_tick_prepares_one_example(kind: type[Preparing]) -> None:
    task = kind()
    model = LoadedModel(task, RunnerSettings(device=DEVICE, precision="fp32"))
    work = model.adapting(ROWS, RECIPE)
    task.calls.clear()
    counts = [0]
    for _ in work:
        counts.append(task.calls.total())
    assert max(after - before for before, after in pairwise(counts)) == 1
    assert counts[-1] >= len(ROWS)


def test_rows_of_several_shapes_are_refused_in_words() -> None:
    with pytest.raises(
        InputError, match=r"Ragged.prepare gave 'latent' of shapes \(\d,\) and \(\d,\)"
    ):
        adapted(Ragged())


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_self_test_proves_the_gradients_of_what_is_prepared(precision: Any) -> None:
    task = Preparing()
    settings = RunnerSettings(device=DEVICE, precision=precision)
    run_self_test(LoadedModel(task, settings)).raise_if_failed()
    assert task.calls


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (None, r"prepare returned a NoneType. Return a batch and targets"),
        (({"latent": torch.zeros(1, 3)}, torch.zeros(2)), r"prepare made of 2 examples {'latent'"),
    ],
)
def test_the_self_test_says_what_prepare_returns_wrongly(made: Any, said: str) -> None:
    task = Preparing()
    task.prepare = lambda *_: made  # type: ignore[method-assign]
    with pytest.raises(GradientFlowError, match=said):
        run_self_test(LoadedModel(task, RunnerSettings(device=DEVICE))).raise_if_failed()
