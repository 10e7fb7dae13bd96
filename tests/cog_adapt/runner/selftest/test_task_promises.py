"""A task that does not keep what `Task` promises fails, with the function named."""

import re
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.model.loaded_model import LoadedModel
from cog_adapt.runner.selftest.task_promises import check_promises
from tests.cog_adapt.devices import DEVICE
from tests.cog_adapt.models import SHAPES, Images, Letters


def judged(task: Any) -> Any:
    return check_promises(LoadedModel(task, RunnerSettings(device=DEVICE)))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_task_that_keeps_its_promises_passes(shape: str) -> None:
    report = judged(SHAPES[shape]())
    assert report.findings == ()
    assert {check.status for check in report.checks} == {"passed"}


def with_hook(name: str, hook: Any, kind: Any = Images) -> Any:
    return type("Broken", (kind,), {name: hook})()


def raising(*_: Any) -> Any:
    raise KeyError("label")


def writing(self: Any, module: Any, batch: Any, labels: Any, options: Any) -> Any:
    module.head.bias.add_(1)
    return module(**batch).tolist()


def sorted_answers(self: Any, module: Any, batch: Any, labels: Any, options: Any) -> Any:
    return sorted(module(**batch).tolist())


def against_the_others(self: Any, module: Any, batch: Any, targets: Any) -> Any:
    logits = module(**batch)
    return F.cross_entropy(logits - logits.mean(0), targets, reduction="none")


BROKEN: dict[str, tuple[Any, str, str]] = {
    "scalar loss": (
        with_hook("loss", lambda self, m, b, t: F.cross_entropy(m(**b), t)),
        "loss-shape",
        r"returned \(\) for 2 examples",
    ),
    "predict raises": (with_hook("predict", raising), "predict", r"raised KeyError"),
    "one answer": (with_hook("predict", lambda *_: ["a"]), "predict", "gave 1 for 2 inputs"),
    "tensors": (
        with_hook("predict", lambda self, m, b, labels, options: list(m(**b))),
        "predict",
        "gave a torch.Tensor. Return texts",
    ),
    "a tensor": (
        with_hook("predict", lambda self, m, b, labels, options: m(**b)),
        "predict",
        "gave Tensor for 2 inputs",
    ),
    "writes": (with_hook("predict", writing), "predict", "wrote to the model: tensor head.bias"),
    "order": (with_hook("predict", sorted_answers), "predict", "in another order"),
    "lora": (with_hook("lora_targets", "attn.*"), "lora-targets", "'attn.*' matches no linear"),
    "head": (with_hook("head", "classifier.*"), "head", "does not match head.weight"),
    "rows of labels": (
        with_hook("start", lambda self, m, labels, examples: {"head.bias": torch.zeros(9)}),
        "start",
        "Give a row for each label",
    ),
    "encode": (with_hook("encode", lambda self, i: torch.ones(2, 8)), "encode", "a Tensor"),
    "encode raises": (with_hook("encode", raising), "encode", "raised KeyError"),
    "rows": (with_hook("encode", lambda self, i: {"x": torch.ones(1, 8)}), "encode", "a row"),
    "labels raise": (with_hook("labels", raising), "labels", "raised KeyError"),
    "start raises": (with_hook("start", raising), "start", "raised KeyError"),
    "start": (with_hook("start", lambda *_: ["head.bias"]), "start", "returned a list. Return ten"),
    "head of nothing": (
        type("Broken", (Images,), {"start": lambda *_: {}, "head": "classifier.*"})(),
        "head",
        "does not match any parameter as a whole name.*; leave `head` out if the model has none",
    ),
    "probe raises": (with_hook("probe", raising), "probe", "raised KeyError"),
    "probe": (with_hook("probe", lambda self: [("a", "b")]), "probe", "holds a tuple"),
    "no probe": (with_hook("probe", lambda self: []), "probe", "Return a list of two"),
    "targets raise": (with_hook("encode_targets", raising), "encode_targets", "raised KeyError"),
    "targets": (
        with_hook("encode_targets", lambda self, t, labels: [0, 1]),
        "encode_targets",
        "made list of 2 targets",
    ),
}


@pytest.mark.parametrize("changes", [{"lora_targets": "(?!)"}, {"method": "all"}])
def test_a_task_may_have_no_layer_for_lora(changes: dict[str, str]) -> None:
    report = judged(type("Plain", (Images,), {"head": "(?!)|head.*", **changes})())
    assert report.passed, report
    assert {finding.level for finding in report.findings} <= {"NOTE"}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_promise_is_named(case: str) -> None:
    task, code, text = BROKEN[case]
    report = judged(task)
    failed = [finding for finding in report.findings if finding.level == "FAIL"]
    assert [finding.code for finding in failed] == [code], report
    assert re.search(text, failed[0].message), failed[0].message


def test_a_function_with_other_arguments_is_told_its_arguments() -> None:
    def predict(self: Any, module: Any, batch: Any, labels: Any) -> Any:
        return module(**batch).argmax(-1).tolist()

    (finding,) = judged(with_hook("predict", predict)).findings
    assert finding.message.endswith(
        "predict() takes 4 positional arguments but 5 were given. It is called as "
        "predict(self, module, batch, labels, options): write it so."
    )
    assert "def predict(self: Any, module: Any, batch: Any, labels: Any)" in finding.line


def test_a_type_error_inside_a_function_is_placed_at_its_line() -> None:
    def predict(self: Any, module: Any, batch: Any, labels: Any, options: Any) -> Any:
        return len()  # type: ignore[call-arg]

    (finding,) = judged(with_hook("predict", predict)).findings
    assert "write it so" not in finding.message
    assert "return len()" in finding.line


def test_an_example_of_the_probe_that_is_refused_is_placed_at_the_probe() -> None:
    def probe(self: Any) -> Any:
        return [Example([1.0] * 8, "low"), Example([0.0] * 8, "hihg")]

    task = type("Broken", (Images,), {"probe": probe, "labels": lambda *_: ("low", "high")})()
    (finding,) = judged(task).findings
    assert finding.message == (
        "Broken.encode_targets raised InputError: label 'hihg' is not among 'low', 'high'. Use "
        "these, or name it in `labels`. `probe` gives this example: let it give one that "
        "`encode_targets` takes."
    )
    assert "def probe(self: Any)" in finding.line


def test_an_error_of_the_task_is_placed_at_its_line() -> None:
    finding = judged(with_hook("predict", raising)).findings[0]
    assert "raise KeyError" in finding.line


def test_a_loss_that_depends_on_the_other_examples_is_a_warning() -> None:
    report = judged(with_hook("loss", against_the_others))
    assert [(f.level, f.code) for f in report.findings] == [("WARN", "rows-depend")]
    assert "rows_are_independent = False" in report.findings[0].message


def test_a_loss_that_is_said_to_depend_on_the_others_is_none() -> None:
    task = with_hook("loss", against_the_others)
    task.rows_are_independent = False
    assert judged(task).findings == ()


def test_the_model_is_left_as_it_was() -> None:
    model = LoadedModel(with_hook("predict", writing, Images), RunnerSettings(device=DEVICE))
    assert not check_promises(model).passed
    assert model.base.census.changes(model.base.module) == []


def test_random_answers_are_not_asked_for_an_order() -> None:
    def drawing(self: Any, module: Any, batch: Any, labels: Any, options: Any) -> Any:
        return torch.rand(len(batch["ids"])).tolist()

    assert judged(with_hook("predict", drawing, Letters)).passed
