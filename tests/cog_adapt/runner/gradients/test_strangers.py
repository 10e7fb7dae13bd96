"""Parameters that get a gradient and belong to nobody are reported."""

from typing import Any

import torch
from torch import nn

from cog_adapt.runner.gradients.strangers import judge_strangers
from tests.cog_adapt.runner.gradients.cases import squares
from tests.cog_adapt.runner.gradients.flows import found, only, ran, tower


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
    assert finding.module == "(root) (Tower)"


def test_where_only_a_part_is_trained_they_are_a_warning() -> None:
    flow = judged(with_a_list(), trainable="head")
    assert found(flow) == [("WARN", "unregistered")]
    assert only(flow).parameters


def test_a_parameter_of_no_module_is_a_warning() -> None:
    scale = nn.Parameter(torch.ones(()))
    finding = only(judged(tower(), loss=lambda output: squares(output * scale)))
    assert (finding.code, finding.level) == ("unregistered", "WARN")
    assert finding.message.startswith("1 parameter with a gradient in neither")


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
