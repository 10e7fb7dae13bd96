"""Entries without a gradient, of parameters with one, must not move the loss."""

import torch
from torch import Tensor, nn

from gradient_check.checks.arrivals import GradientArrivals
from gradient_check.checks.zero_entries import ZeroEntries
from gradient_check.exam.known.hosts import Block, Tower
from gradient_check.instruments.differences import SIXTEEN_BIT
from gradient_check.tests.flows import found, only, ran, tower
from gradient_check.tests.present import present


def entries_of(module: nn.Module, **rest) -> ZeroEntries:
    flow = ran(module, **rest)
    GradientArrivals(flow)._measure()
    return ZeroEntries(flow)


def half(self: nn.Module, h: Tensor) -> Tensor:
    return torch.cat([h[:, :3].detach(), h[:, 3:]], 1)


def test_a_part_that_is_cut_is_found_by_the_rows_it_belongs_to() -> None:
    entries = entries_of(tower(half))
    assert entries.judge() == {"moving": 2}
    finding = only(entries.flow)
    assert (finding.code, finding.level) == ("gradient-wrong", "FAIL")
    assert finding.parameters == ("blocks.1.linear.weight", "blocks.1.linear.bias")
    assert ".detach()" in present(finding.line)


def test_a_whole_gradient_has_no_such_entries() -> None:
    entries = entries_of(tower())
    assert entries.judge() == {"moving": 0}
    assert found(entries.flow) == []


def test_entries_that_move_nothing_are_sound() -> None:
    class Masked(Block):
        def spoil(self, h: Tensor) -> Tensor:
            return h * torch.tensor([1.0, 1, 1, 0, 0, 0])

    entries = entries_of(Tower(Masked()))
    gradient = entries.subject.parameters["blocks.1.linear.weight"].grad
    assert not present(gradient)[3:].any()
    assert entries.judge() == {"moving": 0}


def test_an_entry_that_matters_at_one_point_only_is_no_fault(monkeypatch) -> None:
    entries = entries_of(tower(half))
    at = []
    start = entries.subject.parameters["first.weight"].detach().clone()

    def moves(names: list[str]) -> bool:
        at.append(torch.equal(entries.subject.parameters["first.weight"], start))
        return at[-1]

    monkeypatch.setattr(entries, "_moves_without_gradient", moves)
    assert entries.judge() == {"moving": 0}
    assert at[-1] is False
    assert found(entries.flow) == []


def test_single_parameters_are_asked_only_if_all_together_move_the_loss(monkeypatch) -> None:
    entries, asked = entries_of(tower()), []
    entries.flow.partly_zero = set(entries.subject.names)
    monkeypatch.setattr(entries, "_moves_without_gradient", lambda names: asked.append(names))
    entries.judge()
    assert asked == [entries.subject.names]


def test_in_sixteen_bits_or_after_a_wrong_gradient_nothing_is_asked() -> None:
    entries = entries_of(tower(half))
    entries.limits = SIXTEEN_BIT
    assert entries.judge() == {}
    entries = entries_of(tower(half))
    entries.exam.add("FAIL", "gradient-wrong", "known")
    assert entries.judge() == {}


def test_the_padding_row_of_an_embedding_needs_no_gradient() -> None:
    class Pooled(nn.Module):
        def __init__(self, padding: int | None) -> None:
            super().__init__()
            self.embedding = nn.Embedding(5, 4, padding_idx=padding)

        def forward(self, ids: Tensor) -> Tensor:
            return self.embedding(ids).mean(1)

    ids = torch.tensor([[1, 2, 0], [3, 0, 4]])
    entries = entries_of(Pooled(0), probe=ids)
    assert not present(entries.subject.parameters["embedding.weight"].grad)[0].any()
    assert entries.judge() == {"moving": 0}
    entries = entries_of(Pooled(None), probe=ids)
    present(entries.subject.parameters["embedding.weight"].grad)[0] = 0
    assert entries._moves_without_gradient(["embedding.weight"])
