"""Directions move tensors as their gradients say, without a copy of a large gradient."""

import pytest
import torch

from gradient_check.instruments import directions
from gradient_check.instruments.directions import Direction, bend, dot, move, norm, rows_of


def test_tensors_move_by_size_times_factor_times_direction() -> None:
    one, other, third = torch.zeros(2), torch.ones(2), torch.ones(2)
    ways = [Direction(torch.ones(2)), Direction(torch.ones(2), 3.0), Direction(torch.ones(2))]
    move([one, other, third], ways, 0.5)
    assert (one.tolist(), other.tolist()) == ([0.5, 0.5], [2.5, 2.5])
    assert third.tolist() == [1.5, 1.5]


def test_a_bent_gradient_has_the_signs_and_the_roots_and_noise_of_one_sign() -> None:
    gradient = torch.full((70_000,), -4.0)
    assert torch.equal(bend(gradient).tensor, torch.full((70_000,), -2.0))
    few = bend(gradient[:10]).tensor
    assert bool((few < -2).all())
    assert bend(torch.tensor([0.0, 9.0])).tensor[0] == 0


def test_a_large_gradient_is_its_own_direction(monkeypatch) -> None:
    monkeypatch.setattr(directions, "MANY_ENTRIES", 3)
    gradient = torch.tensor([1.0, -16.0, 4.0, 0.0])
    bent = bend(gradient)
    assert bent.tensor is gradient
    assert bent.factor == 0.25


def test_products_and_norms_are_those_of_all_entries() -> None:
    assert dot(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]])) == 11
    assert norm([torch.tensor([3.0]), torch.tensor([4.0])]) == pytest.approx(5)
    assert norm([torch.tensor([3.0]), torch.tensor([2.0])], [1.0, 2.0]) == pytest.approx(5)


def test_a_direction_of_rows_moves_these_rows_alone() -> None:
    tensor, other = torch.ones(4, 2), torch.ones(2)
    rows = Direction(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), 0.5, torch.tensor([3, 1]))
    move([tensor, other], [rows, Direction(torch.ones(2))], 2.0)
    assert tensor.tolist() == [[1, 1], [4, 5], [1, 1], [2, 3]]
    assert other.tolist() == [3, 3]


def test_few_rows_with_a_gradient_are_told_in_a_large_tensor(monkeypatch) -> None:
    gradient = torch.zeros(9, 2)
    gradient[2, 1], gradient[7, 0] = -1e-30, 3.0
    assert rows_of(gradient) is None  # it is small
    monkeypatch.setattr(directions, "MANY_ROWS", 8)
    found = rows_of(gradient)
    assert found is not None
    assert found.tolist() == [2, 7]
    assert rows_of(gradient[:4]) is None  # a quarter of the rows: no few
    assert rows_of(gradient.view(-1)) is None
