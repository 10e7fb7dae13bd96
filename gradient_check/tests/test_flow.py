"""The forward of a step is run and judged: errors, tampering, shape and value of the loss."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gradient_check.checks import forward as module_under_test
from gradient_check.checks.forward import judge_forward
from gradient_check.exam.known.hosts import squares
from gradient_check.tests.flows import flow_of, found, only, ran, tower
from gradient_check.tests.present import present


def test_a_sound_forward_leaves_loss_graph_and_ground() -> None:
    flow = flow_of(tower())
    assert judge_forward(flow) == {"loss": flow.loss}
    assert flow.loss == pytest.approx(flow.subject.forward())
    assert flow.has_graph
    assert flow.exam.grounds == {"loss"}
    assert flow.exam.findings == []
    assert flow.backward_error is None
    assert set(flow.reached) == {id(p) for p in flow.subject.parameters.values()}


def test_a_loss_that_cannot_be_minimised_is_placed_where_it_left_torch() -> None:
    flow = ran(tower(), loss=lambda output: output.pow(2).mean().item())
    finding = only(flow)
    assert (finding.code, finding.level) == ("loss-shape", "FAIL")
    assert ".item()" in present(finding.line)
    assert flow.exam.grounds == set()


def test_losses_of_a_wrong_shape_fail_but_can_be_worked_on() -> None:
    flow = ran(tower(), loss=lambda output: output.pow(2))
    assert "have shape (3, 2)" in only(flow).message
    assert flow.exam.grounds == {"loss"}


def test_a_loss_that_is_not_finite_is_placed_at_the_first_bad_call() -> None:
    flow = ran(tower(), loss=lambda output: (output - output).abs().log().mean())
    finding = only(flow)
    assert finding.code == "loss-nonfinite"
    assert "log()" in present(finding.line)
    assert flow.exam.grounds == set()
    assert math.isinf(flow.loss)


def raising(self: nn.Module, h: Any) -> Tensor:
    return h.missing if self.training else h


def test_a_forward_that_raises_is_placed() -> None:
    flow = ran(tower(raising))
    finding = only(flow)
    assert (finding.code, finding.module) == ("train-forward", "blocks.1 (Spoilt)")
    assert "h.missing" in present(finding.line)
    assert "nference tensor" not in finding.message


def test_an_inference_tensor_in_a_training_forward_is_explained() -> None:
    with torch.inference_mode():
        kept = torch.ones(6)
    flow = ran(tower(lambda self, h: h * kept))
    finding = only(flow)
    assert finding.code == "train-forward"
    assert "that an inference made and stored: store none" in finding.message


class Raising(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return x * 3

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        raise ValueError("no backward here")


def test_an_error_of_backward_is_kept_for_the_next_check() -> None:
    flow = ran(tower(lambda self, h: Raising.apply(h)))
    assert isinstance(flow.backward_error, ValueError)
    assert found(flow) == []
    assert flow.exam.grounds == {"loss"}


def test_a_loss_without_a_graph_is_no_error_of_backward() -> None:
    flow = ran(tower(), loss=lambda output: squares(output).detach())
    assert flow.backward_error is None
    assert not flow.has_graph
    assert found(flow) == []


def test_a_replica_that_an_earlier_forward_froze_is_left_to_the_next_check() -> None:
    flow: Any = flow_of(tower())
    flow.subject.thaw = lambda: None
    for parameter in flow.subject.parameters.values():
        parameter.requires_grad_(False)
    judge_forward(flow)
    assert found(flow) == []
    assert flow.exam.grounds == set()


def leaving_grad_off(self: nn.Module, h: Tensor) -> Tensor:
    torch.set_grad_enabled(False)
    return h + 1


def reseeding(self: nn.Module, h: Tensor) -> Tensor:
    torch.manual_seed(3)
    return h


@pytest.mark.parametrize(
    ("spoil", "code", "line"),
    [
        (leaving_grad_off, "thread-mode", "torch.set_grad_enabled(False)"),
        (reseeding, "flags-changed", "torch.manual_seed(3)"),
    ],
)
def test_what_a_forward_leaves_switched_is_told(spoil, code: str, line: str) -> None:
    flow = ran(tower(spoil))
    finding = next(f for f in flow.exam.findings if f.code == code)
    assert finding.level == "FAIL"
    assert finding.module == "blocks.1 (Spoilt)"
    assert line in present(finding.line)


def test_the_gradients_of_strangers_are_remembered_those_of_the_replica_are_not() -> None:
    scale = nn.Parameter(torch.ones(()))
    scale.grad = torch.full((), 5.0)
    flow = ran(tower(), loss=lambda output: squares(output * scale))
    assert list(flow.guard.strangers) == [id(scale)]
    assert flow.guard.strangers[id(scale)][2] == 5.0


@pytest.mark.parametrize(("library", "level"), [(True, "WARN"), (False, "FAIL")])
def test_a_seed_that_a_library_sets_is_a_warning(monkeypatch, library: bool, level: str) -> None:
    def seeding(self: Any, h: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(3)
        return h

    monkeypatch.setattr(module_under_test, "is_in_library", lambda line: library)
    assert (level, "flags-changed") in found(ran(tower(seeding)))
