"""Inferences during a step answer as before it; what disturbs only them is a warning."""

from typing import Any

from torch import Tensor

from gradient_check.checks.arrivals import GradientArrivals
from gradient_check.checks.concurrency import ConcurrencyCheck
from gradient_check.tests.flows import flow_of, found, only, operation_of, tower
from gradient_check.tests.present import present


def concurrency_of(module: Any) -> ConcurrencyCheck:
    operation = operation_of(flow_of(module))
    operation.serve_first()
    operation.flow.run_forward()
    GradientArrivals(operation.flow)._measure()
    return ConcurrencyCheck(operation)


def test_serving_during_a_step_answers_as_before() -> None:
    concurrency = concurrency_of(tower())
    concurrency.judge()
    assert found(concurrency.operation.flow) == []


def test_serving_that_a_step_disturbs_is_a_race() -> None:
    concurrency = concurrency_of(tower())
    concurrency.operation.served = present(concurrency.operation.served) + 1
    concurrency.judge()
    finding = only(concurrency.operation.flow)
    assert (finding.code, finding.level) == ("race", "FAIL")
    assert finding.message.startswith("4 of 4 inferences during a step differ")


def test_inferences_that_disturb_only_each_other_are_a_warning(monkeypatch) -> None:
    concurrency = concurrency_of(tower())
    monkeypatch.setattr(
        concurrency, "_trouble_of", lambda threads: "2 differ" if threads == 2 else ""
    )
    concurrency.judge()
    finding = only(concurrency.operation.flow)
    assert (finding.code, finding.level) == ("race", "WARN")
    assert "Let one thread serve" in finding.message


def test_an_inference_that_raises_during_a_step_is_a_race(monkeypatch) -> None:
    concurrency = concurrency_of(tower())

    def serve(*_: Any) -> Tensor:
        raise ValueError("no such thing")

    monkeypatch.setattr(concurrency.subject, "serve", serve)
    concurrency.judge()
    finding = only(concurrency.operation.flow)
    assert (finding.code, finding.level) == ("race", "FAIL")
    assert "raised ValueError: no such thing" in finding.message


def test_a_step_whose_backward_raises_is_reported_as_such(monkeypatch) -> None:
    concurrency = concurrency_of(tower())

    def step(*_: Any) -> None:
        raise RuntimeError("Trying to backward through the graph a second time")

    monkeypatch.setattr(concurrency.subject, "step", step)
    concurrency.judge()
    finding = only(concurrency.operation.flow)
    assert (finding.code, finding.level) == ("backward", "FAIL")
