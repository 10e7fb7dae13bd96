"""One step of the real optimizer changes what it should, and inference does not notice."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gradient_check.check import check_gradients
from gradient_check.checks.entry_samples import EntrySamples
from gradient_check.checks.flow import GradientFlow
from gradient_check.checks.forward import judge_forward
from gradient_check.checks.inference import judge_inference
from gradient_check.checks.still_loss import judge_still_loss
from gradient_check.checks.update import judge_update
from gradient_check.exam.known.hosts import squares
from gradient_check.instruments.differences import FLOAT32, SIXTEEN_BIT
from gradient_check.instruments.portions import STEPS
from gradient_check.tests.flows import flow_of, found, only, operation_of, sgd, tower
from gradient_check.tests.present import present


def trained(module: Any, **rest) -> GradientFlow:
    flow = flow_of(module, **rest)
    judge_inference(operation_of(flow))
    judge_forward(flow)
    flow.measure()
    return flow


def test_a_sound_step_lowers_the_loss_by_about_what_was_predicted() -> None:
    flow = trained(tower(), make_optimizer=sgd(1e-3))
    numbers = judge_update(flow)
    assert found(flow) == []
    assert "stepped" in flow.exam.grounds
    assert numbers["loss before"] == pytest.approx(flow.loss)
    assert numbers["loss after"] == pytest.approx(flow.subject.forward())
    descent = numbers["loss after"] - numbers["loss before"]
    assert descent < 0


def test_a_loss_that_is_no_number_after_a_step_is_told() -> None:
    class Rooted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(6, 4))

        def forward(self, x: Tensor) -> Tensor:
            return x @ self.weight.sqrt()

    flow = trained(Rooted(), make_optimizer=sgd(1e6))
    numbers = judge_update(flow)
    assert ("FAIL", "loss-nonfinite") in found(flow)
    assert numbers["loss after"] != numbers["loss after"]


def test_in_a_large_module_forwards_after_a_step_end_with_the_first_that_sees_one(monkeypatch):
    monkeypatch.setattr("gradient_check.instruments.subject.SMALL_BYTES", 0)
    flow = trained(tower(), make_optimizer=sgd(1e-3))
    assert len(flow.subject.portions(STEPS)) == STEPS
    losses: list[float] = []
    forward = flow.subject.forward

    def noted() -> float:
        losses.append(forward())
        return losses[-1]

    monkeypatch.setattr(flow.subject, "forward", noted)
    numbers = judge_update(flow)
    assert losses == [numbers["loss after"]]
    assert numbers["loss after"] < numbers["loss before"]


def test_a_step_uphill_is_a_warning() -> None:
    flow = trained(tower(), make_optimizer=sgd(0.1, maximize=True))
    assert judge_update(flow)["predicted"] > 0
    assert found(flow) == [("WARN", "ascent")]


def test_with_an_optimizer_of_other_parameters_no_step_is_taken() -> None:
    flow = trained(tower(), make_optimizer=lambda p: torch.optim.SGD(list(p)[:6], lr=0.1))
    before = flow.subject.forward()
    assert judge_update(flow) == {}
    assert flow.subject.forward() == before
    assert found(flow) == [("FAIL", "not-optimized")]
    assert "stepped" not in flow.exam.grounds


def test_at_a_rate_of_zero_a_step_is_taken_and_not_called_lost() -> None:
    flow = trained(tower(), make_optimizer=sgd(0.0))
    judge_update(flow)
    assert ("FAIL", "lr-zero") in found(flow)
    assert "step-lost" not in {code for _, code in found(flow)}
    assert "stepped" in flow.exam.grounds


def test_an_update_below_the_dtypes_resolution_is_lost() -> None:
    flow = trained(tower(), make_optimizer=sgd(1e-30))
    judge_update(flow)
    finding = only(flow)
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
    flow = trained(Caching())
    flow.limits = limits
    judge_update(flow)
    finding = only(flow)
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
    flow = trained(tower())
    flow.limits = SIXTEEN_BIT
    losses: list[float] = []
    forward = flow.subject.forward

    def noted() -> float:
        losses.append(forward())
        return losses[-1]

    monkeypatch.setattr(flow.subject, "forward", noted)
    judge_still_loss(flow, flow.loss, -1.0)
    assert found(flow) == []
    assert len(losses) <= 2


def test_a_loss_that_no_parameter_moves_is_flat() -> None:
    flow = trained(tower(), loss=lambda output: squares(output) * 0 + 1)
    flow.gradient_norms = dict.fromkeys(flow.subject.names, 1e-12)
    judge_still_loss(flow, 1.0, 0.0)
    assert found(flow) == [("FAIL", "flat")]


def test_a_step_too_small_to_see_is_nothing_to_tell() -> None:
    flow = trained(tower())
    loss = flow.loss
    judge_still_loss(flow, loss, -1e-9)
    assert found(flow) == []


def test_a_gradient_that_a_later_step_lacks_is_cut() -> None:
    def later(self: Any, h: Tensor) -> Tensor:
        self.calls = getattr(self, "calls", 0) + 1
        return h.detach() if self.calls > 1 else h

    flow = trained(tower(later))
    judge_update(flow)
    finding = only(flow)
    assert (finding.code, finding.level) == ("graph-cut", "FAIL")
    assert "h.detach() if" in present(finding.line)
    assert "blocks.1.linear.weight" in finding.parameters


LONG = 20_000  # entries, of which the first 16,384 are looked at, and the largest among the others


def moved_at(place: int, gradient: Tensor) -> list[float]:
    """How far the entries that are looked at have moved, where one entry moves by 1."""
    weight = nn.Parameter(torch.zeros(gradient.shape))
    weight.grad = gradient
    samples = EntrySamples({"weight": weight})
    samples.take()
    with torch.no_grad():
        weight.view(-1)[place] += 1
    return [entry for own in samples.moved().values() for entry in own.tolist()]


@pytest.mark.parametrize("place", [0, 4095, 4096, 8191, 16_384, LONG - 1])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_the_entry_of_the_largest_gradient_is_looked_at_wherever_it_is(place, sign) -> None:
    gradient = torch.linspace(-0.5, 0.5, LONG).view(-1, 2)
    gradient.view(-1)[place] = sign
    assert moved_at(place, gradient)[0] == 1.0


def test_of_a_sparse_gradient_too_the_largest_entry_is_looked_at() -> None:
    gradient = torch.tensor([[0.1, -3.0], [2.0, 0.0]]).to_sparse()
    assert moved_at(1, gradient) == [1.0, 0.0, 1.0, 0.0, 0.0]


def test_without_a_gradient_other_than_0_nothing_is_looked_at() -> None:
    assert moved_at(0, torch.zeros(3)) == []
    assert moved_at(0, torch.zeros(LONG)) == []


def test_a_step_too_small_to_see_beside_terms_that_cancel_is_nothing_to_tell() -> None:
    flow = trained(tower())
    flow.loss = 1e-9  # of terms as large as the slope reaches
    judge_still_loss(flow, 1e-9, -1e-8)
    assert found(flow) == []
    judge_still_loss(flow, 1e-9, -1.0)
    assert found(flow) == [("FAIL", "stale-forward")]


class Deep(nn.Sequential):
    """A chain whose output is a product of its layers, so that a long step explodes."""

    def __init__(self) -> None:
        super().__init__(*[nn.Linear(6, 6) for _ in range(6)])


@pytest.mark.parametrize(("rate", "codes"), [(1e-3, []), (1.0, [("WARN", "step-too-long")])])
def test_a_step_that_multiplies_the_loss_is_a_warning(rate: float, codes: list[Any]) -> None:
    flow = trained(Deep(), make_optimizer=lambda p: torch.optim.Adam(p, lr=rate))
    numbers = judge_update(flow)
    assert found(flow) == codes
    assert (numbers["loss after"] > 5 * numbers["loss before"] + 1) == bool(codes)
    assert all("Take a tenth of it" in finding.message for finding in flow.exam.findings)
