"""A task is called on copies of its model; an error of its is a finding."""

from typing import Any

import torch

from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.model.loaded_model import LoadedModel
from cog_adapt.runner.selftest.task_calls import TaskCalls
from tests.cog_adapt.devices import DEVICE
from tests.cog_adapt.models import Images


def calls() -> TaskCalls:
    return TaskCalls(LoadedModel(Images(), RunnerSettings(device=DEVICE)))


def test_a_copy_has_memory_of_its_own_and_takes_what_start_made() -> None:
    task = calls()
    task.tensors = {"head.bias": torch.ones(2)}
    copy: Any = task.copy()
    base: Any = task.model.base.module
    assert copy.fc.weight.data_ptr() != base.fc.weight.data_ptr()
    assert torch.equal(copy.fc.weight, base.fc.weight)
    assert copy.head.bias.tolist() == [1, 1]


def test_an_error_is_a_finding_with_its_line_and_a_value_is_returned() -> None:
    task = calls()

    def fail() -> None:
        raise ValueError("no such thing")

    assert task.call("probe", lambda: 3) == 3
    assert task.call("encode", fail) is None
    (finding,) = task.exam.findings
    assert finding.code == "encode"
    assert finding.message == (
        "Images.encode raised ValueError: no such thing. Correct the line, or its arguments."
    )
    assert "raise ValueError" in (finding.line or "")


def test_inference_takes_no_gradient_and_repeats_its_draws() -> None:
    task = calls()
    copy = task.copy()
    drawn = [task.infer(lambda module: torch.rand(1), copy) for _ in range(2)]
    assert torch.equal(*drawn)
    assert not task.infer(lambda module: next(module.parameters()) * 2, copy).requires_grad
