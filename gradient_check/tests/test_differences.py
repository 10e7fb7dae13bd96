"""Central differences tell a wrong gradient from noise, curvature and kinks."""

import pytest
import torch
from torch import Tensor

from gradient_check.instruments import differences
from gradient_check.instruments.differences import FLOAT32, compare, depends_linearly, zero_entries
from gradient_check.instruments.directions import Direction, DirectionKind


def ways(*, bent: bool = False, scaled: bool = False) -> list[DirectionKind]:
    first = DirectionKind.BENT if bent else DirectionKind.GRADIENT
    return [first, DirectionKind.VALUES] if scaled else [first]


def judged(weights: Tensor, gradient: Tensor, function, **given: bool):
    def forward() -> float:
        return float(function(weights))

    return compare(
        forward,
        [weights],
        [gradient],
        FLOAT32.block,
        FLOAT32,
        loss=forward(),
        ways=ways(**given),
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


def test_a_gradient_that_takes_a_norm_for_a_constant_is_wrong_along_the_values() -> None:
    weights = torch.rand(40, generator=torch.Generator().manual_seed(0))
    towards = torch.randn(40, generator=torch.Generator().manual_seed(1)) + 5

    def along(w: Tensor) -> Tensor:
        return 9 + (w / w.norm() @ towards)

    held = towards / weights.norm()  # a part of it is along the values, where the slope is 0
    across = held - weights * (held @ weights) / (weights @ weights)
    nearly = across + 5e-3 * weights
    assert not judged(weights, nearly, along, bent=True).wrong
    assert judged(weights, nearly, along, bent=True, scaled=True).wrong
    assert not judged(weights, across, along, bent=True, scaled=True).wrong


def test_entries_without_gradient_are_not_scaled(weights: Tensor) -> None:
    gradient = 2 * weights
    gradient[:10] = 0
    assert not judged(weights, gradient, lambda w: (w[10:] ** 2).sum(), scaled=True).wrong
    verdict = judged(weights, gradient, lambda w: (w**2).sum(), scaled=True)
    assert not verdict.wrong  # that is for `zero_entries` to find


def test_a_gradient_against_the_values_is_scaled_too(weights: Tensor) -> None:
    assert not judged(weights, -2 * weights, lambda w: 50 - (w**2).sum(), scaled=True).wrong


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
    assert bool((directions[0].tensor[10:] == 0).all())
    assert depends_linearly(lambda: float((weights**2).sum()), views, directions, 1e-6)
    assert not depends_linearly(lambda: float((weights[10:] ** 2).sum()), views, directions, 1e-6)


def test_curvature_alone_is_no_dependence(weights: Tensor) -> None:
    start = weights.clone()
    views, directions = zero_entries([weights], [torch.zeros(40)])
    loss = lambda: float((10 + (weights - start) ** 2).sum())  # noqa: E731
    assert not depends_linearly(loss, views, directions, 1e-6)


def test_limits_for_sixteen_bits_are_wider() -> None:
    assert differences.SIXTEEN_BIT.block > FLOAT32.block


def test_what_noise_explains_is_right_and_has_no_error() -> None:
    weights = torch.ones(4)
    noisy = differences.Limits(whole=0.003, block=0.003, noise=1.0, rough=0.05)
    verdict = compare(
        lambda: float(weights.sum()), [weights], [torch.full((4,), 2.0)], 0.003, noisy, loss=4.0
    )
    assert (verdict.wrong, verdict.rough, verdict.error) == (False, False, 0.0)


@pytest.mark.parametrize("gradient", [torch.zeros(4), torch.full((4,), float("nan"))])
def test_without_a_finite_slope_there_is_nothing_to_measure(gradient: Tensor) -> None:
    def never() -> float:
        raise AssertionError("it was called")

    verdict = compare(never, [torch.ones(4)], [gradient], 0.003, FLOAT32, loss=4.0)
    assert verdict == differences.Verdict(0.0)


def test_a_central_change_is_taken_on_both_sides_and_put_back() -> None:
    weights = torch.tensor([1.0, 2.0])
    change = differences.central_change(
        lambda: float(weights[0] ** 2), [weights], [Direction(torch.tensor([1.0, 0.0]))], 0.5
    )
    assert change == pytest.approx(1.5**2 - 0.5**2)
    assert weights.tolist() == [1.0, 2.0]


def test_of_a_large_tensor_a_sample_of_rows_is_moved(monkeypatch) -> None:
    monkeypatch.setattr(differences, "MOST_ENTRIES", 4)
    tensor = torch.ones(8, 2)
    (view,), (direction,) = zero_entries([tensor], [torch.zeros(8, 2)])
    assert view.shape == direction.tensor.shape == (2, 2)
    assert view.data_ptr() == tensor.data_ptr()
    assert zero_entries([tensor], [torch.ones(8, 2)]) == ([], [])
    (view,), _ = zero_entries([torch.ones(())], [torch.zeros(())])
    assert view.shape == ()


@pytest.mark.parametrize(
    ("predicted", "measured", "error", "ratio"),
    [
        (2.0, 1.0, 0.5, 0.5),
        (1.0, 2.0, 0.5, 2.0),
        (1.0, 1.0, 0.0, 1.0),
        (0.0, 1.0, 1.0, float("inf")),
    ],
)
def test_a_slope_has_its_error_and_its_ratio(predicted, measured, error, ratio) -> None:
    slope = differences.Slope(predicted, measured, 0.25)
    assert (slope.error, slope.ratio) == (error, ratio)
    assert slope.fits(error)
    assert differences.Slope(1.0, 1.25, 0.25).fits(0.0)
    assert not differences.Slope(1.0, 1.26, 0.25).fits(0.1)


@pytest.mark.parametrize(("factor", "wrong"), [(1.0, False), (0.9, True)])
@pytest.mark.parametrize("bent", [True, False])
def test_of_a_large_table_only_rows_with_a_gradient_are_moved(
    monkeypatch, factor: float, wrong: bool, bent: bool
) -> None:
    monkeypatch.setattr("gradient_check.instruments.directions.MANY_ROWS", 8)
    table = torch.linspace(0.5, 1.5, 40).view(20, 2)
    before, seen = table.clone(), set[float]()

    def forward() -> float:
        seen.update(table[10:].flatten().tolist())
        return float(table[[2, 7]].double().square().sum())

    gradient = torch.zeros(20, 2)
    gradient[[2, 7]] = factor * 2 * table[[2, 7]]
    given = (forward, [table], [gradient], 0.003, FLOAT32)
    verdict = compare(*given, loss=forward(), ways=ways(bent=bent, scaled=True))
    assert verdict.wrong is wrong
    assert torch.allclose(table, before)
    assert seen == set(before[10:].flatten().tolist())


def test_a_verdict_has_each_tensors_share_of_the_slope(weights: Tensor) -> None:
    other = torch.ones(1)
    verdict = compare(
        lambda: float(weights.double().square().sum() + 3 * other.double().sum()),
        [weights, other],
        [2 * weights, torch.tensor([3.0])],
        0.003,
        FLOAT32,
        loss=float(weights.square().sum() + 3),
    )
    assert verdict.shares == pytest.approx((float((2 * weights).square().sum()), 9.0))
