"""Central differences tell a wrong gradient from noise, curvature and kinks."""

import pytest
import torch
from torch import Tensor

from cog_adapt.runner.gradients import differences
from cog_adapt.runner.gradients.differences import FLOAT32, compare, depends_linearly, zero_entries


def judged(weights: Tensor, gradient: Tensor, function, *, bent: bool = False):
    def forward() -> float:
        return float(function(weights))

    return compare(
        forward, [weights], [gradient], FLOAT32.block, FLOAT32, loss=forward(), bent=bent
    )


@pytest.fixture
def weights() -> Tensor:
    return torch.randn(40, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("bent", [False, True])
def test_a_right_gradient_passes(weights: Tensor, bent: bool) -> None:
    verdict = judged(weights, 3 * weights**2, lambda w: (w**3).sum() + 5, bent=bent)
    assert not verdict.wrong
    assert not verdict.rough
    assert verdict.error < FLOAT32.block


@pytest.mark.parametrize("factor", [0.5, 0.98, 1.02, 2.0, -1.0, 1e-3])
@pytest.mark.parametrize("bent", [False, True])
def test_a_scaled_gradient_is_wrong(weights: Tensor, factor: float, bent: bool) -> None:
    verdict = judged(weights, factor * 2 * weights, lambda w: (w**2).sum(), bent=bent)
    assert verdict.wrong
    assert verdict.ratio == pytest.approx(1 / factor, rel=0.1)


def test_a_gradient_without_its_mean_is_right_along_itself_but_not_when_bent() -> None:
    weights = torch.rand(40, generator=torch.Generator().manual_seed(0))
    gradient = 2 * weights - (2 * weights).mean()
    assert not judged(weights, gradient, lambda w: (w**2).sum()).wrong
    assert judged(weights, gradient, lambda w: (w**2).sum(), bent=True).wrong


def test_a_rough_loss_proves_nothing(weights: Tensor) -> None:
    verdict = judged(weights, torch.ones(40), lambda w: (w * 1e6).sin().sum() + 9)
    assert not verdict.wrong


def test_the_weights_are_moved_back(weights: Tensor) -> None:
    before = weights.clone()
    judged(weights, 2 * weights, lambda w: (w**2).sum())
    assert torch.allclose(weights, before, atol=1e-6)


def test_entries_without_gradient_must_not_move_the_loss(weights: Tensor) -> None:
    gradient = 2 * weights
    gradient[:10] = 0
    views, directions = zero_entries([weights], [gradient])
    assert bool((directions[0][10:] == 0).all())
    assert depends_linearly(lambda: float((weights**2).sum()), views, directions, 1e-6)
    assert not depends_linearly(lambda: float((weights[10:] ** 2).sum()), views, directions, 1e-6)


def test_curvature_alone_is_no_dependence(weights: Tensor) -> None:
    start = weights.clone()
    views, directions = zero_entries([weights], [torch.zeros(40)])
    loss = lambda: float((10 + (weights - start) ** 2).sum())  # noqa: E731
    assert not depends_linearly(loss, views, directions, 1e-6)


def test_limits_for_sixteen_bits_are_wider() -> None:
    assert differences.SIXTEEN_BIT.block > FLOAT32.block
