"""What can be told before a module runs is told, and nothing is told of a sound one."""

from typing import Any

import pytest
import torch
from torch import nn

from gradient_check.checks.audit import judge_module
from gradient_check.exam.known.faults_module import quantized, scripted
from gradient_check.findings.examination import Examination
from gradient_check.findings.report import Finding
from gradient_check.tests.flows import tower
from gradient_check.tests.present import present


def findings(module: Any, names: list[str] | None = None) -> dict[str, Finding]:
    chosen = [name for name, _ in module.named_parameters()] if names is None else names
    exam = Examination()
    judge_module(exam, module, chosen)
    return {finding.code: finding for finding in exam.findings}


def only(module: Any, names: list[str] | None = None) -> Finding:
    (finding,) = findings(module, names).values()
    return finding


def test_of_a_sound_module_nothing_is_told() -> None:
    assert findings(tower()) == {}


def test_nothing_selected_is_told_with_the_way_out() -> None:
    finding = only(tower(), [])
    assert (finding.code, finding.level) == ("nothing-trainable", "FAIL")
    assert "none of the 8 parameters" in finding.message
    assert "Correct `trainable`" in finding.message


def test_layers_hidden_in_a_list_are_named_as_the_reason() -> None:
    module: Any = nn.Module()
    module.layers = [nn.Linear(2, 2)]
    assert "layers[0].weight, layers[0].bias hide in a plain list" in only(module).message


def test_a_module_of_buffers_is_told_to_make_parameters() -> None:
    module = nn.Module()
    module.register_buffer("weight", torch.ones(2))
    assert "the module holds only 1 buffers" in only(module).message


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_training_in_sixteen_bits_is_a_warning_for_what_is_trained(dtype) -> None:
    module = tower()
    module.head.to(dtype)
    finding = findings(module)["coarse-dtype"]
    assert finding.level == "WARN"
    assert finding.parameters == ("head.weight", "head.bias")
    assert findings(module, ["first.weight"]) == {}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.jit and torch.ao
def test_modules_that_cannot_train_are_named() -> None:
    assert only(scripted()).code == "scripted"
    assert present(only(scripted()).module).startswith("1 (")
    exam = Examination()
    judge_module(exam, quantized(), ["0.weight"])
    told = exam.findings
    assert {finding.code for finding in told} == {"quantized"}
    assert present(told[0].module).startswith("1.0 (")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_not_finite_are_named(value: float) -> None:
    module = tower()
    module.first.weight.data[0, 0] = value
    finding = only(module)
    assert (finding.code, finding.parameters) == ("nonfinite-weights", ("first.weight",))


def test_large_weights_are_finite_though_their_sum_overflows_in_their_dtype() -> None:
    module = nn.Linear(4, 2)
    module.weight.data.fill_(3e38)
    assert findings(module) == {}
    module.weight.data.fill_(-3e38)[0] = 3e38
    assert findings(module.double()) == {}


def test_complex_weights_are_checked_too() -> None:
    module: Any = nn.Module()
    module.weight = nn.Parameter(torch.ones(2, dtype=torch.complex64))
    assert findings(module) == {}
    module.weight.data[0] = complex(float("nan"), 0)
    assert only(module).code == "nonfinite-weights"


def test_tensors_without_values_or_shape_are_named() -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).to("meta"), nn.LazyLinear(2))
    told = findings(module)
    assert told["meta"].parameters == ("1.weight", "1.bias")
    assert told["lazy"].parameters == ("2.weight", "2.bias")
    assert told["meta"].level == told["lazy"].level == "FAIL"
    assert set(told) == {"meta", "lazy"}


def test_tensors_born_in_inference_mode_are_named() -> None:
    module = tower()
    with torch.inference_mode():
        module.register_buffer("mask", torch.ones(6))
    finding = only(module)
    assert (finding.code, finding.level) == ("inference-tensor", "FAIL")
    assert finding.parameters == ("mask",)


def test_an_inference_tensor_in_an_attribute_is_a_warning() -> None:
    module = tower()
    with torch.inference_mode():
        module.head.kept = torch.ones(6)
    module.head.sound = torch.ones(6)
    finding = only(module)
    assert (finding.code, finding.level) == ("inference-tensor", "WARN")
    assert "serve under no_grad: head.kept." in finding.message
