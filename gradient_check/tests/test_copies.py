"""Values of parameters that live elsewhere are found: the original's, copies, caches."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gradient_check.diagnosis.copies import Copies
from gradient_check.exam.known.hosts import Block, Tower
from gradient_check.findings.report import NOWHERE
from gradient_check.tests.flows import flow_of, tower
from gradient_check.tests.models import seeded_module
from gradient_check.tests.present import present


def copies_of(module: Any) -> Copies:
    return Copies(flow_of(module).diagnosis)


def with_copy() -> Any:
    """Its second block computes with a copy of its weight, in eval with another."""

    def spoil(self: Any, h: Tensor) -> Tensor:
        table = self.copy if self.training else self.spare
        return F.linear(h, table)

    module = tower(spoil)
    module.blocks[1].copy = module.head.weight.detach().clone().repeat(3, 1)
    module.blocks[1].spare = module.first.weight.detach().clone()
    return module


def test_a_tensor_with_a_parameters_values_is_named_with_its_use() -> None:
    copies = copies_of(with_copy())
    text, place = copies.kept(["head.weight", "first.weight"], training=False)
    assert text == " blocks.1.spare is a copy of first.weight, and may be used instead."
    assert "return F.linear(h, table)" in present(place.line)
    text, place = copies.kept(["first.weight"])
    assert "blocks.1.spare" in text
    assert place == NOWHERE  # training uses the other one


def test_other_values_single_numbers_and_the_same_memory_are_no_copies() -> None:
    module = tower()
    module.scale = nn.Parameter(torch.ones(1))
    module.one = torch.ones(1)
    module.view = module.first.weight.detach()
    module.other = module.first.weight.detach() + 1
    module.flat = module.head.weight.detach().clone().view(-1)
    assert copies_of(module).kept(["scale", "first.weight", "head.weight"]) == ("", NOWHERE)


def test_the_line_that_uses_the_original_is_named_by_the_module_that_calls_it() -> None:
    original = seeded_module(lambda: nn.Linear(6, 6))
    module = Tower(type("Closed", (Block,), {"spoil": lambda self, h: original(h)})())
    module.own = original
    place = copies_of(module).uses_original()
    assert place.module == "blocks.1 (Closed)"
    assert '"spoil": lambda self, h: original(h)' in present(place.line)


def test_a_module_that_keeps_to_itself_uses_no_original() -> None:
    assert copies_of(tower()).uses_original() == NOWHERE


def test_the_originals_gradients_are_put_back_after_the_question() -> None:
    module = tower()
    copies = copies_of(module)
    module.head.weight.grad = torch.ones(2, 6)
    copies.uses_original()
    assert module.head.weight.grad is None


def caching(self: Any, h: Tensor) -> Tensor:
    if not hasattr(self, "mixed"):
        self.mixed = torch.softmax(self.linear.weight, -1).detach()
    return h @ self.mixed


def test_a_value_that_only_the_first_forward_computes_is_named() -> None:
    module = Tower(type("Caching", (Block,), {"forward": caching})())
    flow = flow_of(module)
    flow.subject.forward()
    replica, parameters = flow.subject.replica, flow.subject.parameters
    place = Copies(flow.diagnosis).cached(["blocks.1.linear.weight"])
    assert place.module == "blocks.1 (Caching)"
    assert "torch.softmax(self.linear.weight" in present(place.line)
    assert flow.subject.replica is flow.subject.step.replica is replica
    assert flow.subject.parameters is parameters


def test_what_every_forward_uses_or_none_does_is_not_cached() -> None:
    module = tower()
    module.spare = nn.Linear(2, 2)
    flow = flow_of(module)
    flow.subject.forward()
    copies = Copies(flow.diagnosis)
    assert copies.cached(["head.weight"]) == NOWHERE
    assert copies.cached(["spare.weight"]) == NOWHERE
