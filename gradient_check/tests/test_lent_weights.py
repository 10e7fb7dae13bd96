"""A large base lies in the module's memory once that is safe, and not before."""

import pytest
import torch
from torch import nn

from gradient_check.checks.inference import judge_inference
from gradient_check.checks.perturbation import perturb_replica
from gradient_check.exam.known.hosts import squares
from gradient_check.tests.flows import flow_of, found, operation_of, subject_of, tower


@pytest.fixture(autouse=True)
def everything_is_large(monkeypatch) -> None:
    monkeypatch.setattr("gradient_check.instruments.subject.SMALL_BYTES", 0)


def addresses(module: nn.Module) -> dict[str, int]:
    return {name: p.data_ptr() for name, p in module.named_parameters()}


def test_the_first_inference_runs_on_the_replicas_memory_and_never_on_the_modules() -> None:
    module = tower()
    subject = subject_of(module)
    assert addresses(subject.base) == addresses(subject.replica)
    assert addresses(subject.template) == addresses(subject.replica)
    assert not set(addresses(subject.base).values()) & set(addresses(module).values())
    some = subject_of(module, trainable="head")
    assert not set(addresses(some.base).values()) & set(addresses(module).values())


def test_afterwards_the_base_needs_no_memory_and_the_replica_has_its_own() -> None:
    module = tower()
    subject = subject_of(module)
    assert subject.weights is not None
    subject.weights.lend()
    assert addresses(subject.base) == addresses(subject.template) == addresses(module)
    assert not set(addresses(subject.replica).values()) & set(addresses(module).values())


def test_all_but_some_parameters_lie_in_the_modules_memory_and_come_back() -> None:
    module = tower()
    subject = subject_of(module)
    assert subject.weights is not None
    subject.weights.lend()
    subject.weights.lend_all_but(["head.weight"])
    own, theirs = addresses(subject.replica), addresses(module)
    assert [name for name in own if own[name] != theirs[name]] == ["head.weight"]
    subject.weights.put_back(subject.names)
    own = addresses(subject.replica)
    assert not set(own.values()) & set(theirs.values())
    assert torch.equal(
        subject.replica.get_parameter("head.bias"), module.get_parameter("head.bias")
    )


class Writing(nn.Module):
    """Its forward writes to its weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(6, 6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.weight.data.mul_(1.01)
        return x @ self.weight


def test_a_module_that_writes_lends_nothing_and_keeps_its_values() -> None:
    module = Writing()
    flow = flow_of(module, loss=squares)
    operation = operation_of(flow)
    judge_inference(operation)
    perturb_replica(operation)
    assert operation.early_changes
    weights, base = flow.subject.weights, flow.subject.base
    assert weights is not None
    weights.lend_all_but([])
    for part in (base, flow.subject.replica):
        assert addresses(part)["weight"] != module.weight.data_ptr()
    assert torch.equal(module.weight, torch.ones(6, 6))
    assert found(flow)  # the two inferences differed
