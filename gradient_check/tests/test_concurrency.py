"""Inferences during a step answer as before it; what disturbs only them is a warning."""

import itertools
from typing import Any

from torch import Tensor

from gradient_check.checks.concurrency import judge_concurrency
from gradient_check.checks.forward import judge_forward
from gradient_check.checks.inference import judge_inference
from gradient_check.checks.operation import Operation
from gradient_check.tests.flows import flow_of, found, only, operation_of, tower
from gradient_check.tests.present import present


def trained(module: Any) -> Operation:
    operation = operation_of(flow_of(module))
    judge_inference(operation)
    judge_forward(operation.flow)
    operation.flow.measure()
    return operation


def test_serving_during_a_step_answers_as_before() -> None:
    operation = trained(tower())
    judge_concurrency(operation)
    assert found(operation.flow) == []


def test_serving_that_a_step_disturbs_is_a_race() -> None:
    operation = trained(tower())
    operation.served = present(operation.served) + 1
    judge_concurrency(operation)
    finding = only(operation.flow)
    assert (finding.code, finding.level) == ("race", "FAIL")
    assert finding.message.startswith("4 of 4 inferences during a step differ")


def test_inferences_that_disturb_only_each_other_are_a_warning(monkeypatch) -> None:
    operation = trained(tower())
    answer, calls = present(operation.served), itertools.count()
    at_once = 4  # inferences on two threads; those after them run on one
    serve = lambda base: answer + (next(calls) < at_once)  # noqa: E731
    monkeypatch.setattr(operation.flow.subject, "serve", serve)
    judge_concurrency(operation)
    finding = only(operation.flow)
    assert (finding.code, finding.level) == ("race", "WARN")
    assert "Let one thread serve" in finding.message


def test_an_inference_that_raises_during_a_step_is_a_race(monkeypatch) -> None:
    operation = trained(tower())

    def serve(*_: Any) -> Tensor:
        raise ValueError("no such thing")

    monkeypatch.setattr(operation.flow.subject, "serve", serve)
    judge_concurrency(operation)
    finding = only(operation.flow)
    assert (finding.code, finding.level) == ("race", "FAIL")
    assert "raised ValueError: no such thing" in finding.message


def test_a_step_whose_backward_raises_is_reported_as_such(monkeypatch) -> None:
    operation = trained(tower())

    def step(*_: Any) -> None:
        raise RuntimeError("Trying to backward through the graph a second time")

    monkeypatch.setattr(operation.flow.subject, "step", step)
    judge_concurrency(operation)
    finding = only(operation.flow)
    assert (finding.code, finding.level) == ("backward", "FAIL")
