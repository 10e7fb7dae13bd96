"""What serves is checked: it repeats, a replica answers alike, and nothing trained is left out."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gradient_check.check import check_gradients
from gradient_check.checks.forward import judge_forward
from gradient_check.checks.inference import judge_inference
from gradient_check.checks.operation import Operation, apart, close
from gradient_check.checks.perturbation import perturb_replica
from gradient_check.checks.replica import judge_replica
from gradient_check.checks.serving import judge_serving
from gradient_check.exam.case import Question
from gradient_check.exam.known import faults_serving
from gradient_check.exam.known.hosts import rows, squares
from gradient_check.instruments.differences import SIXTEEN_BIT
from gradient_check.tests.flows import flow_of, found, only, operation_of, tower
from gradient_check.tests.models import SpectralNet, seeded_module
from gradient_check.tests.present import present

NOISY = [q for q in faults_serving.questions if q.name in ("NoisyGate", "Posterior", "NoisyWeight")]


def served(module: Any, **rest) -> Operation:
    operation = operation_of(flow_of(module, **rest))
    judge_inference(operation)
    return operation


def trained(module: Any, **rest) -> Operation:
    operation = served(module, **rest)
    judge_forward(operation.flow)
    operation.flow.measure()
    return operation


def test_inference_that_repeats_lays_the_ground() -> None:
    operation = served(tower())
    subject = operation.flow.subject
    assert torch.equal(present(operation.served), subject.serve(subject.base, subject.seed))
    assert operation.flow.exam.grounds == {"served"}
    assert found(operation.flow) == []


def test_inference_that_depends_on_the_seed_is_a_warning() -> None:
    operation = served(tower(lambda self, h: nn.functional.dropout(h, 0.3)))
    assert found(operation.flow) == [("WARN", "random-inference")]
    assert operation.flow.exam.grounds == {"served"}


def counting(self: Any, h: Tensor) -> Tensor:
    self.calls = getattr(self, "calls", 0) + 1
    return h * self.calls


def test_inference_that_does_not_repeat_is_a_warning() -> None:
    operation = served(tower(counting))
    assert found(operation.flow) == [("WARN", "nondeterministic")]
    assert operation.flow.exam.grounds == set()


def test_inference_that_raises_in_a_module_fails_with_its_place() -> None:
    def raising(self: Any, h: Any) -> Tensor:
        return h.missing

    finding = only(served(tower(raising)).flow)
    assert (finding.code, finding.level) == ("serve", "FAIL")
    assert finding.module == "blocks.1 (Spoilt)"
    assert "h.missing" in present(finding.line)
    assert "inference under inference_mode raised AttributeError" in finding.message


def test_a_loss_that_cannot_be_served_is_a_warning() -> None:
    operation = served(tower(), loss=lambda output: 1 / 0)
    assert found(operation.flow) == [("WARN", "serve")]


def test_a_replica_at_the_bases_values_answers_as_the_base() -> None:
    flow = flow_of(tower())
    operation = operation_of(flow)
    judge_inference(operation)
    judge_replica(operation)  # perturbed: it answers otherwise
    finding = only(flow)
    assert (finding.code, finding.level) == ("replica", "FAIL")
    assert "losses " in finding.message
    flow.exam.findings.clear()
    for name, parameter in flow.subject.parameters.items():
        parameter.detach().copy_(flow.subject.base.get_parameter(name))
    judge_replica(operation)
    assert found(flow) == []


def test_a_perturbation_moves_the_replica_and_keeps_its_buffers() -> None:
    flow = flow_of(nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4)))
    flow.subject.buffers = {}
    replica: Any = flow.subject.replica
    before = replica[0].weight.detach().clone()
    perturb_replica(operation_of(flow))
    assert not torch.equal(replica[0].weight, before)
    assert set(flow.subject.buffers) == {name for name, _ in replica.named_buffers()}


def test_serving_an_adapter_agrees_with_an_eval_forward() -> None:
    operation = trained(tower())
    judge_serving(operation)
    assert found(operation.flow) == []
    assert operation.flow.subject.loss.observer is None


def test_both_sides_of_the_comparison_begin_with_the_same_buffers() -> None:
    module = seeded_module(SpectralNet)
    operation = trained(module, probe=rows(4, 8))
    judge_serving(operation)
    assert found(operation.flow) == []


def test_a_forward_that_writes_to_its_buffers_in_eval_agrees_with_itself() -> None:
    def counting_in_a_buffer(self: Any, h: Tensor) -> Tensor:
        self.count.add_(1)
        return h * self.count.clone()

    module = tower(counting_in_a_buffer)
    module.blocks[1].register_buffer("count", torch.zeros(()))
    operation = trained(module)
    judge_serving(operation)
    assert found(operation.flow)[-1] != ("FAIL", "serve-differs")


def test_a_short_cut_of_inference_fails() -> None:
    def short_cut(self: Any, h: Tensor) -> Tensor:
        return h if torch.is_grad_enabled() else h * 1.05

    operation = trained(tower(short_cut))
    judge_serving(operation)
    finding = only(operation.flow)
    assert (finding.code, finding.level) == ("serve-differs", "FAIL")
    assert "inference and an eval forward with gradients differ" in finding.message


class Auxiliary(nn.Module):
    """Its second layer is used in training only; in eval, perhaps a copy of it."""

    def __init__(self, *, copied: bool = False) -> None:
        super().__init__()
        self.main = nn.Linear(6, 2)
        self.extra = nn.Linear(6, 2)
        if copied:
            self.table = self.extra.weight.detach().clone()

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            return self.main(x) + self.extra(x)
        return self.main(x) + (x @ self.table.t() if hasattr(self, "table") else 0)


def test_a_layer_that_inference_leaves_out_is_a_warning() -> None:
    operation = trained(Auxiliary())
    judge_serving(operation)
    finding = only(operation.flow)
    assert (finding.code, finding.level) == ("serve-differs", "WARN")
    assert finding.parameters == ("extra.weight", "extra.bias")
    assert finding.module == "extra (Linear)"
    assert "does not use 2 of 4 trained parameters" in finding.message


@pytest.mark.parametrize("question", NOISY, ids=lambda question: question.name)
def test_a_layer_that_shapes_the_noise_of_training_is_a_note(question: Question) -> None:
    case = question.make()
    report = check_gradients(case.module, case.probe, case.loss, **case.options)
    (finding,) = (f for f in report.findings if f.code == "serve-differs")
    assert finding.level == "NOTE"
    assert "shape the noise" in finding.message


def test_a_layer_beside_the_noise_of_training_is_a_warning() -> None:
    class Noisy(Auxiliary):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) + (torch.randn(2) * self.training if self.training else 0)

    report = check_gradients(Noisy(), rows(8, 6), squares, random_loss=True)
    (finding,) = (f for f in report.findings if f.code == "serve-differs")
    assert finding.level == "WARN"


def test_a_copy_in_its_place_is_a_failure_with_the_copys_use() -> None:
    operation = trained(Auxiliary(copied=True))
    judge_serving(operation)
    finding = only(operation.flow)
    assert finding.level == "FAIL"
    assert "table is a copy of extra.weight" in finding.message
    assert "self.table.t()" in present(finding.line)


def test_leaving_out_all_that_is_trained_is_a_failure() -> None:
    operation = trained(Auxiliary(), trainable="extra")
    judge_serving(operation)
    assert found(operation.flow) == [("FAIL", "serve-differs")]


def test_sixteen_bits_allow_more() -> None:
    operation = served(tower())
    operation.flow.limits = SIXTEEN_BIT
    wide = Operation(operation.flow)
    assert operation.same < 1e-3 < wide.same


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ([1.0, 2.0], [1.0, 2.001], True),
        ([1.0, 2.0], [1.0, 2.003], False),
        ([1.0, 2.0], [1.0], False),
        ([0.0], [1e-9], False),
        ([float("nan"), 1.0], [float("nan"), 1.0], True),
        ([float("nan"), 1.0], [0.0, 1.0], False),
        ([float("inf"), 1.0], [float("inf"), 1.1], False),
        ([], [], True),
    ],
)
def test_losses_are_close_within_a_share_of_the_largest(one, other, expected: bool) -> None:
    assert close(torch.tensor(one), torch.tensor(other), 1e-3) is expected


def test_two_means_are_shown() -> None:
    shown = apart(torch.tensor([1.0, 2.0]), torch.tensor([2.0]))
    assert shown == "losses 1.5 and 2"


def hooking(self: Any, h: Tensor) -> Tensor:
    if not hasattr(self, "watch"):
        self.watch = self.linear.register_forward_hook(lambda *_: None)
    return h


def test_a_hook_that_the_first_inference_sets_is_a_warning() -> None:
    operation = served(tower(hooking))
    finding = only(operation.flow)
    assert (finding.level, finding.code) == ("WARN", "late-hooks")
    assert "blocks.1.linear" in finding.message
    assert operation.census.changes(operation.flow.subject.base) == []


def test_hooks_that_every_inference_sets_are_named_in_words() -> None:
    def piling(self: Any, h: Tensor) -> Tensor:
        self.linear.register_forward_hook(lambda *_: None)
        return h

    operation = served(tower(piling))
    changes = operation.census.changes(operation.flow.subject.base)
    assert changes == ["module blocks.1.linear (hooks) was 1 and is 3"]
