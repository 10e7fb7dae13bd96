"""One step of the real optimizer changes what it should, and inference does not notice."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gradient_check.check import check_gradients
from gradient_check.checks.arrivals import GradientArrivals
from gradient_check.checks.update import Update, _entries, _largest, _Step
from gradient_check.exam.known.hosts import squares
from gradient_check.instruments.differences import FLOAT32, SIXTEEN_BIT
from gradient_check.instruments.portions import STEPS
from gradient_check.tests.flows import flow_of, found, only, operation_of, sgd, tower
from gradient_check.tests.present import present


def update_of(module: Any, **rest) -> Update:
    flow = flow_of(module, **rest)
    operation = operation_of(flow)
    operation.serve_first()
    flow.run_forward()
    GradientArrivals(flow)._measure()
    return Update(operation)


def test_a_sound_step_lowers_the_loss_by_about_what_was_predicted() -> None:
    update = update_of(tower(), make_optimizer=sgd(1e-3))
    numbers = update.take_step()
    assert found(update.flow) == []
    assert "stepped" in update.exam.grounds
    assert numbers["loss before"] == pytest.approx(update.flow.loss)
    assert numbers["loss after"] == pytest.approx(update.subject.forward())
    descent = numbers["loss after"] - numbers["loss before"]
    assert descent < 0


def test_a_loss_that_is_no_number_after_a_step_is_told() -> None:
    class Rooted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(6, 4))

        def forward(self, x: Tensor) -> Tensor:
            return x @ self.weight.sqrt()

    update = update_of(Rooted(), make_optimizer=sgd(1e6))
    numbers = update.take_step()
    assert ("FAIL", "loss-nonfinite") in found(update.flow)
    assert numbers["loss after"] != numbers["loss after"]


def test_in_a_large_module_forwards_after_a_step_end_with_the_first_that_sees_one(monkeypatch):
    monkeypatch.setattr("gradient_check.instruments.subject.SMALL_BYTES", 0)
    update = update_of(tower(), make_optimizer=sgd(1e-3))
    assert len(update.subject.portions(STEPS)) == STEPS
    losses: list[float] = []
    forward = update.subject.forward

    def noted() -> float:
        losses.append(forward())
        return losses[-1]

    monkeypatch.setattr(update.subject, "forward", noted)
    numbers = update.take_step()
    assert losses == [numbers["loss after"]]
    assert numbers["loss after"] < numbers["loss before"]


def test_a_step_uphill_is_a_warning() -> None:
    update = update_of(tower(), make_optimizer=sgd(0.1, maximize=True))
    assert update.take_step()["predicted"] > 0
    assert found(update.flow) == [("WARN", "ascent")]


def test_with_an_optimizer_of_other_parameters_no_step_is_taken() -> None:
    update = update_of(tower(), make_optimizer=lambda p: torch.optim.SGD(list(p)[:6], lr=0.1))
    before = update.subject.forward()
    assert update.take_step() == {}
    assert update.subject.forward() == before
    assert found(update.flow) == [("FAIL", "not-optimized")]
    assert "stepped" not in update.exam.grounds


def test_at_a_rate_of_zero_a_step_is_taken_and_not_called_lost() -> None:
    update = update_of(tower(), make_optimizer=sgd(0.0))
    update.take_step()
    assert ("FAIL", "lr-zero") in found(update.flow)
    assert "step-lost" not in {code for _, code in found(update.flow)}
    assert "stepped" in update.exam.grounds


def test_an_update_below_the_dtypes_resolution_is_lost() -> None:
    update = update_of(tower(), make_optimizer=sgd(1e-30))
    update.take_step()
    finding = only(update.flow)
    assert (finding.code, finding.level) == ("step-lost", "FAIL")
    assert len(finding.parameters) == 8


class Caching(nn.Module):
    """Computes with a copy of its weight that the first forward made."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 2))

    def forward(self, x: Tensor) -> Tensor:
        if not hasattr(self, "copy"):
            self.copy = self.weight.detach().clone()
        return x @ self.copy + x @ (self.weight - self.weight.detach())


@pytest.mark.parametrize("limits", [FLOAT32, SIXTEEN_BIT], ids=["32 bits", "16 bits"])
def test_a_loss_that_a_step_should_have_moved_is_stale(limits) -> None:
    update = update_of(Caching())
    update.flow.limits = limits
    update.take_step()
    finding = only(update.flow)
    assert (finding.code, finding.level) == ("stale-forward", "FAIL")


def first_policy_step(output: Tensor) -> Tensor:
    """Return the loss of a policy's first step, whose ratio to its old self is 1 (GRPO, PPO)."""
    chances = output.log_softmax(-1)
    return -(torch.exp(chances - chances.detach()) * torch.arange(output.shape[-1])).mean(-1)


def test_a_ratio_that_is_always_one_is_not_stale_where_it_is_declared() -> None:
    probe = torch.randn(5, 4)
    report = check_gradients(
        nn.Linear(4, 3), probe, first_policy_step, stop_gradients=["chances.detach()"]
    )
    assert report.passed, str(report)
    assert [finding.code for finding in report.findings] == ["stop-gradient"]


def test_a_ratio_that_is_always_one_is_told_once_where_it_is_not_declared() -> None:
    report = check_gradients(nn.Linear(4, 3), torch.randn(5, 4), first_policy_step)
    (finding,) = report.findings
    assert finding.code == "gradient-wrong"
    assert "chances.detach()" in (finding.line or "")


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_a_step_that_16_bits_round_away_is_no_fault(precision: str) -> None:
    for seed in (19, 33, 39, 48, 52, 53):  # in bf16 each of these steps leaves the loss as it was
        torch.manual_seed(seed)
        report = check_gradients(nn.Linear(4, 2), torch.ones(3, 4), squares, precision=precision)
        assert report.passed, str(report)


def test_a_still_loss_in_16_bits_costs_two_forwards_at_most(monkeypatch) -> None:
    update = update_of(tower())
    update.flow.limits = SIXTEEN_BIT
    losses: list[float] = []
    forward = update.subject.forward

    def noted() -> float:
        losses.append(forward())
        return losses[-1]

    monkeypatch.setattr(update.subject, "forward", noted)
    update._judge_still(_Step(update.flow.loss, update.flow.loss, -1.0, (), 1))
    assert found(update.flow) == []
    assert len(losses) <= 2


def test_a_loss_that_no_parameter_moves_is_flat() -> None:
    update = update_of(tower(), loss=lambda output: squares(output) * 0 + 1)
    update.flow.gradient_norms = dict.fromkeys(update.subject.names, 1e-12)
    update._judge_still(_Step(1.0, 1.0, 0.0, (), 1))
    assert found(update.flow) == [("FAIL", "flat")]


def test_a_step_too_small_to_see_is_nothing_to_tell() -> None:
    update = update_of(tower())
    loss = update.flow.loss
    update._judge_still(_Step(loss, loss, -1e-9, (), 1))
    assert found(update.flow) == []


def test_a_gradient_that_a_later_step_lacks_is_cut() -> None:
    def later(self: Any, h: Tensor) -> Tensor:
        self.calls = getattr(self, "calls", 0) + 1
        return h.detach() if self.calls > 1 else h

    update = update_of(tower(later))
    update.take_step()
    finding = only(update.flow)
    assert (finding.code, finding.level) == ("graph-cut", "FAIL")
    assert "h.detach() if" in present(finding.line)
    assert "blocks.1.linear.weight" in finding.parameters


def test_the_largest_entry_is_among_those_that_are_looked_at(monkeypatch) -> None:
    gradient = torch.tensor([[0.1, -3.0], [2.0, 0.0]])
    assert _largest(gradient) == 1
    assert _largest(gradient.to_sparse()) == 1
    assert _largest(torch.zeros(3)) is None
    assert _largest(torch.zeros(0)) is None
    monkeypatch.setattr("gradient_check.checks.update._SAMPLE", 2)
    assert _entries(torch.arange(5.0), 4).tolist() == [4.0, 0.0, 1.0]


@pytest.mark.parametrize("place", [0, 5, 7, 8, 9])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_of_a_long_gradient_the_largest_entry_is_found_by_rows(monkeypatch, place, sign) -> None:
    monkeypatch.setattr("gradient_check.checks.update._ROW", 4)
    gradient = torch.linspace(-0.5, 0.5, 10).view(5, 2)
    gradient.view(-1)[place] = sign
    assert _largest(gradient) == place
    assert _largest(torch.zeros(10)) is None


def test_a_step_too_small_to_see_beside_terms_that_cancel_is_nothing_to_tell() -> None:
    update = update_of(tower())
    update.flow.loss = 1e-9  # of terms as large as the slope reaches
    update._judge_still(_Step(1e-9, 1e-9, -1e-8, (), 1))
    assert found(update.flow) == []
    update._judge_still(_Step(1e-9, 1e-9, -1.0, (), 1))
    assert found(update.flow) == [("FAIL", "stale-forward")]
