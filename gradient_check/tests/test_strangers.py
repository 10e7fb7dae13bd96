"""Parameters that get a gradient and belong to nobody are reported."""

import functools
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gradient_check import check_gradients
from gradient_check.checks.strangers import judge_strangers
from gradient_check.exam.known.hosts import rows, squares
from gradient_check.tests.flows import found, only, ran, tower
from gradient_check.tests.present import present


def judged(module: Any, **rest):
    flow = ran(module, **rest)
    judge_strangers(flow)
    return flow


def with_a_list() -> Any:
    module = tower(lambda self, h: self.hidden[0](h))
    module.blocks[1].hidden = [nn.Linear(6, 6)]
    return module


def test_a_module_that_registers_everything_has_no_strangers() -> None:
    assert found(judged(tower())) == []


def test_layers_in_a_plain_list_fail_by_their_paths() -> None:
    finding = only(judged(with_a_list()))
    assert (finding.code, finding.level) == ("unregistered", "FAIL")
    assert finding.parameters == ("blocks.1.hidden[0].bias", "blocks.1.hidden[0].weight")
    assert finding.module == "blocks.1 (Spoilt)"
    assert "module.blocks[1].hidden = [nn.Linear(6, 6)]" in present(finding.line)


def test_where_only_a_part_is_trained_they_are_a_warning() -> None:
    flow = judged(with_a_list(), trainable="head")
    assert found(flow) == [("WARN", "unregistered")]
    assert only(flow).parameters


def test_a_parameter_of_no_module_is_a_warning() -> None:
    scale = nn.Parameter(torch.ones(()))
    finding = only(judged(tower(), loss=lambda output: squares(output * scale)))
    assert (finding.code, finding.level) == ("unregistered", "WARN")
    assert finding.message.startswith("1 parameter with a gradient in neither")
    assert "squares(output * scale)" in present(finding.line)


def test_a_loss_module_owns_its_parameters() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(()))

        def forward(self, output):
            return squares(output * self.scale)

    assert found(judged(tower(), loss=Scaled())) == []


def test_a_tensor_that_lasts_counts_as_a_parameter_whatever_its_class() -> None:
    leaf = torch.ones((), requires_grad=True)
    flow = judged(tower(), loss=lambda output: squares(output * leaf))
    assert found(flow) == [("WARN", "unregistered")]


def test_a_leaf_that_each_forward_makes_is_none() -> None:
    flow = judged(tower(), loss=lambda output: squares(output * torch.ones(1, requires_grad=True)))
    assert found(flow) == []


KEPT = "kept"


class Slotted:
    __slots__ = ("weight",)

    def __init__(self) -> None:
        self.weight = nn.Parameter(torch.ones(6))


@dataclass
class Scales:
    first: Tensor


class Plain(nn.Module):
    """A net with a step in its middle that computes with what nothing registers."""

    def __init__(self) -> None:
        super().__init__()
        self.inp, self.out = nn.Linear(6, 6), nn.Linear(6, 2)
        self.build()

    def build(self) -> None:
        """Make what is hidden."""

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.mid(torch.tanh(self.inp(x))))

    def mid(self, h: Tensor) -> Tensor:
        return h


class InSlots(Plain):
    def build(self) -> None:
        self.bag = Slotted()  # here

    def mid(self, h: Tensor) -> Tensor:
        return h * self.bag.weight


class InDataclass(Plain):
    def build(self) -> None:
        self.scales = Scales(torch.ones(6, requires_grad=True))  # here

    def mid(self, h: Tensor) -> Tensor:
        return h * self.scales.first


class OfTheClass(Plain):
    scale = nn.Parameter(torch.ones(6))  # here

    def mid(self, h: Tensor) -> Tensor:
        return h * self.scale


class Appended(Plain):
    def build(self) -> None:
        self.layers = []  # here
        for _ in range(2):
            self.layers.append(nn.Linear(6, 6))

    def mid(self, h: Tensor) -> Tensor:
        return self.layers[1](self.layers[0](h))


class ByName(Plain):
    layer0: nn.Module
    layer1: nn.Module

    def build(self) -> None:
        for number in range(2):
            object.__setattr__(self, f"layer{number}", nn.Linear(6, 6))  # here

    def mid(self, h: Tensor) -> Tensor:
        return self.layer1(self.layer0(h))


class InDict(Plain):
    mix: nn.Module

    def build(self) -> None:
        self.__dict__["mix"] = nn.Sequential(nn.Linear(6, 6))  # here

    def mid(self, h: Tensor) -> Tensor:
        return self.mix(h)


class InClosure(Plain):
    def build(self) -> None:
        gate = nn.Linear(6, 6)
        self.act = lambda h: h * torch.sigmoid(gate(h))  # here

    def mid(self, h: Tensor) -> Tensor:
        return self.act(h)


class InPartial(Plain):
    def build(self) -> None:
        self.act = functools.partial(torch.mul, nn.Parameter(torch.ones(6)))  # here

    def mid(self, h: Tensor) -> Tensor:
        return self.act(h)


class InDepth(Plain):
    def build(self) -> None:
        self.pairs = {"x": [({"y": nn.Linear(6, 6)}, 3)]}  # here

    def mid(self, h: Tensor) -> Tensor:
        return self.pairs["x"][0][0]["y"](h)


class Later(Plain):
    def build(self) -> None:
        self.shift: Any = None

    def mid(self, h: Tensor) -> Tensor:
        if self.shift is None:
            self.shift = torch.zeros(6, requires_grad=True)  # here
        return h + self.shift


class RegisteredLater(Plain):
    def build(self) -> None:
        self.shift: Any = None

    def mid(self, h: Tensor) -> Tensor:
        if self.shift is None:
            self.shift = nn.Parameter(torch.zeros(6))  # here
        return h + self.shift


class Buffered(Plain):
    scale: Tensor

    def build(self) -> None:
        self.register_buffer("scale", torch.ones(6, requires_grad=True))  # here

    def mid(self, h: Tensor) -> Tensor:
        return h * self.scale


class Derived(Plain):
    def build(self) -> None:
        self.scale = nn.Parameter(torch.ones(6)) * 0.5  # here

    def mid(self, h: Tensor) -> Tensor:
        return h * self.scale


HIDDEN = [
    *(InSlots, InDataclass, OfTheClass, Appended, ByName, InDict, InClosure, InPartial, InDepth),
    *(Later, RegisteredLater, Buffered, Derived),
]


@pytest.mark.parametrize("kind", HIDDEN, ids=lambda kind: kind.__name__)
def test_whatever_hides_a_parameter_the_line_that_keeps_it_there_is_named(kind: Any) -> None:
    report = check_gradients(kind(), rows(3, 6), squares)
    failures = [f for f in report.findings if (f.level, f.code) == ("FAIL", "unregistered")]
    (finding,) = failures
    assert present(finding.line).endswith("# here")
    assert not any("was stopped by" in each.message for each in report.findings), report


def test_where_no_source_assigns_it_the_line_that_uses_it_is_named() -> None:
    class Made(Plain):
        def mid(self, h: Tensor) -> Tensor:
            return h * vars(self)[KEPT]

    module = Made()
    vars(module)[KEPT] = nn.Parameter(torch.ones(6))
    finding = only(judged(module))
    assert "return h * vars(self)[KEPT]" in present(finding.line)


def test_what_only_a_hook_closes_over_is_a_warning() -> None:
    module, scale = Plain(), nn.Parameter(torch.ones(6))
    module.inp.register_forward_hook(lambda part, inputs, output: output * scale)
    report = check_gradients(module, rows(3, 6), squares)
    (finding,) = (f for f in report.findings if f.code == "unregistered")
    assert finding.level == "WARN"
    assert "output * scale" in present(finding.line)
