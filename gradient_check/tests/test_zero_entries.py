"""Entries without a gradient, of parameters with one, must not move the loss."""

from typing import Any

import torch
from torch import Tensor, nn

from gradient_check.checks import moving_zeros
from gradient_check.checks.moving_zeros import zeros_move
from gradient_check.checks.zero_entries import judge_zero_entries
from gradient_check.exam.known.hosts import Block, Tower
from gradient_check.instruments.differences import SIXTEEN_BIT
from gradient_check.tests.flows import found, measured, only, tower
from gradient_check.tests.present import present


def half(self: nn.Module, h: Tensor) -> Tensor:
    return torch.cat([h[:, :3].detach(), h[:, 3:]], 1)


def test_a_part_that_is_cut_is_found_by_the_rows_it_belongs_to() -> None:
    flow = measured(tower(half))
    assert judge_zero_entries(flow) == {"moving": 2}
    finding = only(flow)
    assert (finding.code, finding.level) == ("gradient-wrong", "FAIL")
    assert finding.parameters == ("blocks.1.linear.weight", "blocks.1.linear.bias")
    assert ".detach()" in present(finding.line)


def test_a_whole_gradient_has_no_such_entries() -> None:
    flow = measured(tower())
    assert judge_zero_entries(flow) == {"moving": 0}
    assert found(flow) == []


def test_entries_that_move_nothing_are_sound() -> None:
    class Masked(Block):
        def spoil(self, h: Tensor) -> Tensor:
            return h * torch.tensor([1.0, 1, 1, 0, 0, 0])

    flow = measured(Tower(Masked()))
    gradient = flow.subject.parameters["blocks.1.linear.weight"].grad
    assert not present(gradient)[3:].any()
    assert judge_zero_entries(flow) == {"moving": 0}


def test_an_entry_that_matters_at_one_point_only_is_no_fault() -> None:
    start: list[Tensor] = []

    def cut_at_the_start(self: Any, h: Tensor) -> Tensor:
        is_near = not start or float((first().detach() - start[0]).norm()) < 0.01
        return torch.cat([h[:, :3].detach() * is_near, h[:, 3:]], 1)

    def first() -> Tensor:
        return flow.subject.parameters["first.weight"]

    flow = measured(tower(cut_at_the_start))
    start.append(first().detach().clone())
    assert zeros_move(flow, ["blocks.1.linear.weight"])
    assert judge_zero_entries(flow) == {"moving": 0}
    assert found(flow) == []


def test_single_parameters_are_asked_only_if_all_together_move_the_loss(monkeypatch) -> None:
    flow = measured(tower())
    asked: list[list[str]] = []
    flow.partly_zero = set(flow.subject.names)
    monkeypatch.setattr(moving_zeros, "zeros_move", lambda _, names: asked.append(names))
    judge_zero_entries(flow)
    assert asked == [flow.subject.names]


def test_in_sixteen_bits_or_after_a_wrong_gradient_nothing_is_asked() -> None:
    flow = measured(tower(half))
    flow.limits = SIXTEEN_BIT
    assert judge_zero_entries(flow) == {}
    flow = measured(tower(half))
    flow.exam.add("FAIL", "gradient-wrong", "known")
    assert judge_zero_entries(flow) == {}


def test_the_padding_row_of_an_embedding_needs_no_gradient() -> None:
    class Pooled(nn.Module):
        def __init__(self, padding: int | None) -> None:
            super().__init__()
            self.embedding = nn.Embedding(5, 4, padding_idx=padding)

        def forward(self, ids: Tensor) -> Tensor:
            return self.embedding(ids).mean(1)

    ids = torch.tensor([[1, 2, 0], [3, 0, 4]])
    flow = measured(Pooled(0), probe=ids)
    assert not present(flow.subject.parameters["embedding.weight"].grad)[0].any()
    assert judge_zero_entries(flow) == {"moving": 0}
    flow = measured(Pooled(None), probe=ids)
    present(flow.subject.parameters["embedding.weight"].grad)[0] = 0
    assert zeros_move(flow, ["embedding.weight"])
