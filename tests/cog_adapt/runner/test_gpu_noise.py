"""Noise by row, and the self-test under declared noise and slopes, on the device that is chosen."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cog_adapt import row_generators
from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.inference.label_tensors import finished
from cog_adapt.runner.model.loaded_model import LoadedModel
from gradient_check.check import check_gradients
from gradient_check.exam.known.hosts import rows
from tests.cog_adapt.devices import COUNT, FIRST, LAST, NEEDS_CUDA, PRECISIONS
from tests.cog_adapt.runner.noisy import RECIPE, Denoising, examples

pytestmark = NEEDS_CUDA


def test_generators_are_of_the_chosen_device_and_move_no_stream() -> None:
    devices: set[torch.device] = set()

    class Looking(Denoising):
        def noise(self, x: Tensor) -> Tensor:
            devices.update(generator.device for generator in row_generators())
            return super().noise(x)

    torch.cuda.set_device(FIRST)
    model = LoadedModel(Looking(), RunnerSettings(device=str(LAST), precision="fp32"))
    before = [torch.get_rng_state(), *torch.cuda.get_rng_state_all()]
    finished(model.adapting(examples(12), RECIPE))
    after = [torch.get_rng_state(), *torch.cuda.get_rng_state_all()]
    assert devices == {LAST}
    assert len(after) == COUNT + 1
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


def denoising(module: Any, x: Tensor) -> Tensor:
    noise = torch.randn_like(x)
    return (module(x + noise) - noise).square().mean(1)


def net() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 12), nn.Tanh(), nn.Linear(12, 5)).to(LAST)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_declared_random_loss_is_tested_whole(precision: str) -> None:
    torch.cuda.set_device(FIRST)
    report = check_gradients(
        net(), rows(6, 5).to(LAST), denoising, precision=precision, random_loss=True
    )
    assert [f for f in report.findings if f.level != "NOTE"] == []
    assert "skipped" not in {check.status for check in report.checks}


class Reverse(torch.autograd.Function):
    """Passes values on, and gradients back times -0.5."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return -0.5 * gradient


class Reversal(nn.Module):
    """A module that reverses."""

    def forward(self, x: Tensor) -> Tensor:
        return Reverse.apply(x)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("factor", [-0.5, 0.5])
def test_a_declared_factor_is_measured(precision: str, factor: float) -> None:
    torch.cuda.set_device(FIRST)
    module = nn.Sequential(nn.Linear(5, 12), nn.Tanh(), Reversal(), nn.Linear(12, 5)).to(LAST)
    report = check_gradients(
        module,
        rows(6, 5).to(LAST),
        lambda output: (output - 1).square().mean(1),
        precision=precision,
        reversed_gradients={"2": factor},
    )
    assert report.passed is (factor == -0.5)
