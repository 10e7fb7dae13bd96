"""Parameters that are not in the graph were forgotten, or another draw would reach them."""

import torch
from torch import Tensor, nn

from gradient_check.checks.unused_parameters import judge_unused_parameters
from gradient_check.exam.known.hosts import Block, Tower
from gradient_check.tests.flows import found, only, ran


class Sometimes(Block):
    """Its second layer takes part in half of the draws, a third one in none."""

    def __init__(self) -> None:
        super().__init__()
        self.second, self.third = nn.Linear(6, 6), nn.Linear(6, 6)

    def spoil(self, h: Tensor) -> Tensor:
        return self.second(h) if torch.rand(()) > 0.5 else h


NAMES = ["blocks.1.second.bias", "blocks.1.third.bias"]


def test_what_another_draw_reaches_is_a_warning_and_what_none_does_fails() -> None:
    flow = ran(Tower(Sometimes()))
    judge_unused_parameters(flow, NAMES)
    assert found(flow) == [("WARN", "unreached"), ("FAIL", "unused")]
    assert [finding.parameters for finding in flow.exam.findings] == [(n,) for n in NAMES]


def test_where_nothing_is_used_other_draws_are_not_asked() -> None:
    flow = ran(Tower(Sometimes()))
    judge_unused_parameters(flow, list(flow.subject.names))
    assert only(flow).code == "unused"
