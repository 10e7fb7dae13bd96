"""Noise has the asked spread, repeats for its seed, and is added in place whatever the layout."""

import pytest
import torch

from gradient_check.instruments import noise as noises
from gradient_check.instruments.noise import add_noise, noise, real, spread, tiled


def test_a_complex_tensor_is_seen_as_real_numbers_in_place() -> None:
    tensor = torch.zeros(3, dtype=torch.complex64)
    real(tensor).add_(1)
    assert torch.equal(tensor, torch.full((3,), 1 + 1j))
    assert real(torch.ones(3)).shape == (3,)
    assert torch.equal(real(tensor.conj())[:, 1], torch.full((3,), -1.0))


@pytest.mark.parametrize(
    ("values", "expected"),
    [([1.0, 3.0], 2**0.5), ([2.0, 2.0], 2.0), ([-5.0], 5.0), ([0.0, 0.0], 1.0), ([], 0.0)],
)
def test_the_spread_of_a_constant_is_its_size(values, expected: float) -> None:
    assert spread(torch.tensor(values)) == pytest.approx(expected)


def test_a_spread_that_is_tiny_beside_the_mean_counts_as_none() -> None:
    assert spread(torch.tensor([1.0, 1.00001])) == pytest.approx(1.0, rel=1e-3)
    assert spread(torch.tensor([1.0, 1.001])) < 0.01


def test_noise_is_short_normal_and_its_seeds() -> None:
    row = noise(10**6, 3, torch.ones(1, dtype=torch.float64))
    assert row.shape == (65_537,)
    assert row.dtype is torch.float64
    assert abs(float(row.mean())) < 0.02
    assert float(row.std()) == pytest.approx(1, abs=0.02)
    assert torch.equal(noise(5, 3, row), noise(5, 3, row))
    assert not torch.equal(noise(5, 3, row), noise(5, 4, row))


def test_tiles_fill_the_shape(monkeypatch) -> None:
    monkeypatch.setattr(noises, "TILE_LENGTH", 4)
    found = tiled(torch.ones(5, 2), 1).view(-1)
    assert torch.equal(found[:4], found[4:8])
    assert torch.equal(found[8:], found[:2])
    assert tiled(torch.ones(0), 1).shape == (0,)


@pytest.mark.parametrize("size", [1, 3, 4, 8, 10])
def test_adding_in_place_is_adding_tiles(monkeypatch, size: int) -> None:
    monkeypatch.setattr(noises, "TILE_LENGTH", 4)
    tensor = torch.ones(size)
    add_noise(tensor, 0.5, 7)
    assert torch.allclose(tensor, 1 + 0.5 * tiled(torch.ones(size), 7))


def test_a_tensor_that_is_not_contiguous_gets_noise_too() -> None:
    whole = torch.ones(3, 4)
    add_noise(whole.t(), 0.5, 7)
    assert torch.allclose(whole.t(), 1 + 0.5 * tiled(torch.ones(4, 3), 7))


def test_an_empty_tensor_stays_empty() -> None:
    tensor = torch.ones(0)
    add_noise(tensor, 0.5, 7)
    assert tensor.numel() == 0


@pytest.mark.parametrize("width", [64, 384, 1000])
def test_of_a_large_tensor_all_columns_are_sampled(width: int) -> None:
    tensor = torch.zeros(400_000 // width + 1, width)
    tensor[:, ::2] = 2.0
    assert spread(tensor) == pytest.approx(1.0, abs=0.02)
    assert spread(tensor.t()) == pytest.approx(1.0, abs=0.02)  # it is read whole
