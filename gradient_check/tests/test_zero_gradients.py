"""A gradient of exactly 0 is a fault where the loss depends on the values, else a warning."""

import torch
from torch import Tensor, nn

from gradient_check.checks.zero_gradients import judge_zero_gradients
from gradient_check.exam.known.hosts import Block, Tower
from gradient_check.tests.flows import found, measured, only, tower
from gradient_check.tests.present import present


def judged(module: nn.Module):
    flow = measured(module)
    zero = [name for name, norm in flow.gradient_norms.items() if norm == 0]
    judge_zero_gradients(flow, zero)
    return flow


def test_without_zeros_nothing_is_said() -> None:
    assert found(judged(tower())) == []


def test_a_rounding_that_the_loss_notices_loses_gradients() -> None:
    finding = only(judged(tower(lambda self, h: (h * 4).round() / 4)))
    assert (finding.code, finding.level) == ("grad-zero", "FAIL")
    assert len(finding.parameters) == 6
    assert "(h * 4).round() / 4" in present(finding.line)


def test_a_saturated_function_is_a_fault_though_the_loss_does_not_notice() -> None:
    finding = only(judged(tower(lambda self, h: torch.sigmoid((h + 3) * 1e4))))
    assert finding.code == "grad-zero"
    assert "torch.sigmoid" in present(finding.line)


def test_what_the_loss_does_not_notice_is_dead_on_this_probe() -> None:
    finding = only(judged(tower(lambda self, h: h * 0 + 1)))
    assert (finding.code, finding.level) == ("dead", "WARN")
    assert len(finding.parameters) == 6
    assert "h * 0 + 1" in present(finding.line)
    assert finding.module == "blocks.1 (Spoilt)"


class Gated(Block):
    """Its threshold lies just below where it would let something through."""

    def __init__(self) -> None:
        super().__init__()
        self.threshold = nn.Parameter(torch.tensor([0.9, 0.5]))

    def spoil(self, h: Tensor) -> Tensor:
        return h + torch.relu(self.threshold.sum() - 1.6)


def test_a_gate_that_is_shut_is_no_fault() -> None:
    flow = judged(Tower(Gated()))
    finding = only(flow)
    assert (finding.code, finding.level) == ("dead", "WARN")
    assert finding.parameters == ("blocks.1.threshold",)


def test_lost_and_dead_gradients_are_told_apart() -> None:
    class Both(Gated):
        def spoil(self, h: Tensor) -> Tensor:
            return (h * 4).round() / 4 + torch.relu(self.threshold.sum() - 100)

    flow = judged(Tower(Both()))
    assert found(flow) == [("FAIL", "grad-zero"), ("WARN", "dead")]
    assert flow.exam.findings[1].parameters == ("blocks.1.threshold",)


def test_a_place_that_cannot_be_found_is_the_parameters_module() -> None:
    class Alone(Block):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.zeros(1))
            self.scale.register_hook(lambda gradient: gradient * 0)

        def spoil(self, h: Tensor) -> Tensor:
            return h + self.scale * 0

    assert only(judged(Tower(Alone()))).module == "blocks.1 (Alone)"


def test_two_causes_are_two_warnings() -> None:
    class Twice(Block):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2))

        def spoil(self, h: Tensor) -> Tensor:
            h = h + torch.relu(self.first.sum() - 100)
            return h + self.second.sum().clamp(min=100)

    dead = judged(Tower(Twice())).exam.findings
    assert [(f.code, f.parameters) for f in dead] == [
        ("dead", ("blocks.1.first",)),
        ("dead", ("blocks.1.second",)),
    ]
    assert "relu" in present(dead[0].line)
    assert "clamp" in present(dead[1].line)
