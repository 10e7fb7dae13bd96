"""Of a parameter that nothing uses, the line is named that leaves it out."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gradient_check import check_gradients
from gradient_check.exam.known.hosts import Block, rows, squares
from gradient_check.tests.present import present


class Net(nn.Module):
    """A net with a step in its middle."""

    def __init__(self) -> None:
        super().__init__()
        self.inp, self.out = nn.Linear(6, 6), nn.Linear(6, 2)
        self.blocks = nn.ModuleList()
        self.build()

    def build(self) -> None:
        """Make what the step uses, or does not."""

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.mid(torch.tanh(self.inp(x))))

    def mid(self, h: Tensor) -> Tensor:
        return h


class Three(Net):
    def build(self) -> None:
        self.blocks = nn.ModuleList(Block() for _ in range(3))


class OneTooFew(Three):
    def mid(self, h: Tensor) -> Tensor:
        for number in range(len(self.blocks) - 1):  # here
            h = self.blocks[number](h)
        return h


class Sliced(Three):
    def mid(self, h: Tensor) -> Tensor:
        for block in self.blocks[1:]:  # here
            h = block(h)
        return h


class Zipped(Three):
    def mid(self, h: Tensor) -> Tensor:
        for block, factor in zip(self.blocks, (1.0, 0.5), strict=False):  # here
            h = block(h) * factor
        return h


class Counted(Three):
    def mid(self, h: Tensor) -> Tensor:
        number = 0
        while number < len(self.blocks) - 1:  # here
            h = self.blocks[number](h)
            number += 1
        return h


class SameIndex(Three):
    def mid(self, h: Tensor) -> Tensor:
        for _ in range(2):
            h = self.blocks[0](h) + self.blocks[1](h)  # here
        return h


class Factors(Net):
    def build(self) -> None:
        self.factors = nn.ParameterList(torch.eye(6) for _ in range(3))

    def mid(self, h: Tensor) -> Tensor:
        parts = [
            h @ self.factors[number]
            for number in (0, 1)  # here
        ]
        return torch.stack(parts).sum(0)


class Pair(Net):
    def build(self) -> None:
        self.first, self.second = Block(), Block()


class TwiceTheFirst(Pair):
    def mid(self, h: Tensor) -> Tensor:
        one = self.first(h)
        return one * self.first(h)  # here


class Named(Net):
    def build(self) -> None:
        self.heads = nn.ModuleDict({"a": nn.Linear(6, 6), "b": nn.Linear(6, 6)})

    def mid(self, h: Tensor) -> Tensor:
        a = self.heads["a"](h)
        b = self.heads["a"](0.5 * h)  # here
        return a * b


class Dropped(Pair):
    def mid(self, h: Tensor) -> Tensor:
        extra = self.first(h)
        _ = extra.square() + 1  # here
        return self.second(h)


class Skipped(Net):
    def build(self) -> None:
        self.extra, self.is_deep = Block(), False

    def mid(self, h: Tensor) -> Tensor:
        if self.is_deep:  # here
            h = self.extra(h)
        return h


class InOneLine(Net):
    def build(self) -> None:
        self.norm = nn.LayerNorm(6)

    def mid(self, h: Tensor) -> Tensor:
        return self.norm(h) if h.dim() == 3 else h  # here


class Forgotten(Net):
    def build(self) -> None:
        self.spare = Block()  # here


UNUSED = [
    *(OneTooFew, Sliced, Zipped, Counted, SameIndex, Factors, TwiceTheFirst, Named, Dropped),
    *(Skipped, InOneLine, Forgotten),
]


@pytest.mark.parametrize("kind", UNUSED, ids=lambda kind: kind.__name__)
def test_the_line_that_leaves_a_parameter_out_is_named(kind: Any) -> None:
    report = check_gradients(kind(), rows(3, 6), squares)
    (finding,) = (f for f in report.findings if f.level == "FAIL")
    assert finding.code == "unused"
    assert present(finding.line).endswith("# here"), finding
    assert "amed line" in finding.message


def test_a_part_of_other_shapes_is_not_taken_for_the_one_that_is_meant() -> None:
    class Other(Net):
        def build(self) -> None:
            self.twice = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6))
            self.spare = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 3))  # here

        def mid(self, h: Tensor) -> Tensor:
            return self.twice(self.twice(h))

    report = check_gradients(Other(), rows(3, 6), squares)
    (finding,) = (f for f in report.findings if f.level == "FAIL")
    assert present(finding.line).endswith("# here"), finding


def test_what_is_put_into_a_module_from_outside_is_named_where_that_is_done() -> None:
    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(6, 2)

        def forward(self, x: Tensor) -> Tensor:
            return torch.tanh(self.linear(x))

    module: Any = Plain()
    module.more = nn.Linear(6, 6)  # here
    report = check_gradients(module, rows(3, 6), squares)
    (finding,) = (f for f in report.findings if f.level == "FAIL")
    assert present(finding.line).endswith("# here"), finding
