"""What a forward takes from an earlier one is named by the line that keeps it."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gradient_check.checks.kept_graphs import (
    keeper_of,
    keeping_of,
    remedy,
    report_later_backward,
)
from gradient_check.findings.report import NOWHERE
from gradient_check.tests.flows import only, ran, tower
from gradient_check.tests.present import present


def keeping(self: Any, h: Tensor) -> Tensor:
    self.hidden = h if getattr(self, "hidden", None) is None else torch.tanh(h + self.hidden)
    return self.hidden


def once(self: Any, h: Tensor) -> Tensor:
    if getattr(self, "scale", None) is None:
        self.scale = self.linear.weight.mean() * 3
    return h * self.scale


def test_a_second_backward_that_fails_names_what_keeps_the_graph() -> None:
    flow = ran(tower(keeping))
    flow.exam.findings.clear()
    report_later_backward(flow, RuntimeError("Trying to backward a second time"))
    finding = only(flow)
    assert finding.code == "backward"
    assert "blocks.1.hidden keeps a graph" in finding.message
    assert finding.module == "blocks.1.hidden"
    assert "self.hidden = h if" in present(finding.line)


def test_the_line_is_named_that_keeps_what_the_next_forward_takes() -> None:
    place = keeping_of(ran(tower(once)))
    assert place.module == "blocks.1 (Spoilt)"
    assert "self.scale = self.linear.weight.mean() * 3" in present(place.line)


def test_of_a_result_older_than_both_forwards_the_use_is_named() -> None:
    kept = nn.Parameter(torch.ones(6)) * 2.0
    place = keeping_of(ran(tower(lambda self, h: h * kept)))
    assert "h * kept" in present(place.line)


def test_a_sound_forward_keeps_nothing() -> None:
    flow = ran(tower())
    replica = flow.subject.replica
    assert keeping_of(flow) == NOWHERE
    assert flow.subject.replica is replica


def test_without_a_maker_the_errors_own_place_is_told() -> None:
    flow = ran(tower())
    report_later_backward(flow, RuntimeError("no such thing"))
    finding = only(flow)
    assert finding.line is None
    assert "the named line" not in finding.message


def test_keepers_are_found_in_attributes_lists_and_dicts() -> None:
    value = nn.Parameter(torch.ones(2)) * 2
    module = tower()
    assert keeper_of(module) is None
    module.plain, module.leaf = value.detach(), torch.ones(2, requires_grad=True)
    assert keeper_of(module) is None
    module.head.kept = {"a": 1, "b": value}
    assert keeper_of(module) == "head.kept"
    module.first.kept = (1, value)
    assert keeper_of(module) == "first.kept"
    module.kept = value
    assert keeper_of(module) == "(root).kept"


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("returned an incorrect number of gradients (expected 2, got 1)", "Return one gradient"),
        ("returned an invalid gradient at index 0", "Return one gradient"),
        ("Trying to backward through the graph a second time", "Call backward in"),
        ("modified by an inplace operation", "Do not write to"),
    ],
)
def test_an_error_of_backward_has_its_remedy(text: str, advice: str) -> None:
    assert advice in remedy(text)
