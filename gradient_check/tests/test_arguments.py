"""A wrong use of `check_gradients` gets a sentence: what was assumed, and what to write."""

import functools
from typing import Any

import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F

from gradient_check import check_gradients
from gradient_check.arguments import check_loss, check_options, check_probe, chosen_precision
from gradient_check.exam.known.faults_users import tower
from gradient_check.exam.known.hosts import rows, squares
from gradient_check.phases.errors import ConfigError
from gradient_check.phases.precision import Precision


class Lightning(nn.Module):
    def loss_of(self, model: Any, batch: Any) -> Any:
        return model(batch)

    def loss_of_a_policy(self, policy: Any, batch: Any) -> Any:
        return policy(batch)

    def training_step(self, batch: Any, i: int) -> Any:
        return batch

    def handed_on(self, model: Any, batch: Any) -> Any:
        return self.loss_of(model, batch)

    def of_inputs(self, x: Any, y: Any) -> Any:
        return F.cross_entropy(self(x), y)


class Agent:
    def handed_on(self, policy: Any, batch: Any) -> Any:
        return self.loss_of(policy, batch)

    def loss_of(self, out: Any, x: Any) -> Any:
        return out(x)

    def __call__(self, scores: nn.Module, x: Any) -> Any:
        return squares(scores(x))


def named_like_an_output(score: nn.Module, x: Any) -> Any:
    return squares(torch.nn.functional.relu(score.forward(x)))


def with_a_weight(output: Any, x: Any, weight: float) -> Any:
    return weight * squares(output(x))


@pytest.mark.parametrize(
    ("loss", "advice"),
    [
        (nn.CrossEntropyLoss(), r"an output and targets, and the probe is a Tensor"),
        (F.cross_entropy, r"Pass `\(inputs, targets\)` as the probe"),
        (lambda out, y: F.mse_loss(out, y), r"if 'out' is the module, annotate it: nn.Module"),
        (nn.TripletMarginLoss(), r"asks for 3 arguments, but .*`\(output, targets\) -> losses`"),
        (Lightning().training_step, r"lambda module, batch: module.training_step\(batch, 0\)"),
        (Lightning().of_inputs, r"of_inputs\(x, y\) is a module's method"),
        (lambda module, x, y: x, "asks for 3 arguments"),
        (3, "loss is a int"),
        (lambda output, model: squares(model(output)), r"takes the module second"),
        (lambda model: squares(model(rows(3, 6))), r"takes the module alone"),
        (lambda: 0, "takes no argument"),
        (lambda *, output: output, "takes no argument"),
    ],
)
def test_a_loss_of_another_form_is_refused_with_the_right_one(loss: Any, advice: str) -> None:
    with pytest.raises(ConfigError, match=advice):
        check_gradients(tower(), rows(3, 6), loss)


@pytest.mark.parametrize(
    "loss",
    [
        squares,
        Lightning().loss_of,
        lambda module, probe: probe,
        lambda m, batch: batch,
        lambda net, x: x,
        torch.mean,
        nn.Flatten(),
        lambda *rest: rest,
        named_like_an_output,
        lambda score, x: score(x),
        lambda predictions, x: functional_call(predictions, {}, x),
        lambda y, x: sum(p.sum() for p in y.parameters()),
        functools.partial(with_a_weight, weight=2.0),
        Agent().loss_of,
        Agent(),
        Lightning().loss_of_a_policy,
        Lightning().handed_on,
        Agent().handed_on,
        lambda distribution: -distribution.log_prob(rows(3)),
    ],
)
def test_a_loss_of_either_form_is_accepted(loss: Any) -> None:
    check_loss(loss, rows(3, 6))


@pytest.mark.parametrize(
    ("probe", "given"),
    [
        ({"x": rows(3, 6), "y": rows(3, 2)}, "a dict of 2"),
        ((rows(3, 6),), "a tuple of 1"),
        ([rows(3, 6)] * 3, "a list of 3"),
        (rows(2, 6), "a Tensor"),  # of two rows, which are no inputs and targets
    ],
)
def test_a_loss_of_targets_with_a_probe_that_is_no_pair_is_refused(probe: Any, given: str) -> None:
    with pytest.raises(ConfigError, match=f"the probe is {given}: a loss is `"):
        check_gradients(tower(), probe, nn.MSELoss())


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "serve mode": ({"serve_mode": "no_gard"}, "'no_gard'; allowed: inference_mode, no_grad"),
    "precision": ({"precision": "bf61"}, "'bf61'; allowed: fp32, bf16, fp16"),
    "dtype": ({"precision": torch.int8}, "allowed: fp32"),
    "optimizer": (
        {"make_optimizer": torch.optim.SGD([torch.zeros(1)], lr=0.1)},
        "lambda parameters: torch.optim.SGD",
    ),
    "no optimizer": ({"make_optimizer": 3}, "make_optimizer is a int"),
    "entry": ({"entry": "predict"}, "entry is a str"),
    "names": ({"trainable": ["0.weight"]}, "trainable is a list"),
    "regex": ({"trainable": "("}, "'\\(' is no regex"),
    "regex of unused": ({"unused": ["("]}, "'\\(' is no regex"),
    "a number": ({"unused": 3}, "unused is 3. Pass a text, or a sequence of texts"),
    "a factor": ({"surrogate_gradients": 0.5}, "surrogate_gradients is 0.5. Pass a text"),
    "an empty text": ({"stop_gradients": [""]}, "stop_gradients holds an empty text"),
    "an empty pattern": ({"surrogate_gradients": ""}, "surrogate_gradients holds an empty text"),
    "numbers": ({"unused": [3]}, "unused holds a int"),
    "seed": ({"seed": "a"}, "seed is 'a'. Pass a whole number"),
    "seed of parts": ({"seed": 1.5}, "seed is 1.5"),
    "checkpointing": ({"checkpointing": "no"}, "checkpointing is 'no'. Pass True or False"),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_option_of_another_kind_is_refused(case: str) -> None:
    options, text = WRONG[case]
    with pytest.raises(ConfigError, match=text):
        check_gradients(tower(), rows(3, 6), squares, **options)


def test_a_misspelt_unused_is_a_warning_with_the_nearest_name() -> None:
    report = check_gradients(tower(), rows(3, 6), squares, unused=["0.weihgt"])
    (finding,) = report.findings
    assert (finding.level, finding.code) == ("WARN", "unused")
    assert "the nearest is 0.weight" in finding.message


def test_a_precision_may_be_a_name_or_a_dtype() -> None:
    cpu = torch.device("cpu")
    assert chosen_precision("bf16", tower()) == Precision(cpu, torch.bfloat16)
    assert chosen_precision(torch.float16, tower()) == Precision(cpu, torch.float16)
    assert chosen_precision(None, tower().bfloat16()) == Precision(cpu, torch.bfloat16)
    assert chosen_precision(Precision(cpu), tower()) == Precision(cpu)


def refusing(parameters: Any) -> Any:
    raise KeyError("head")


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({"learning_rate": -1}, "learning_rate is -1. Pass a number above 0"),
        ({"learning_rate": "1e-3"}, "learning_rate is '1e-3'"),
        ({"trainable": lambda name: True}, r"trainable\(name\) is given two arguments"),
        ({"make_optimizer": lambda parameters: None}, "make_optimizer returned a NoneType"),
        ({"make_optimizer": lambda: None}, "make_optimizer raised TypeError"),
        ({"make_optimizer": refusing}, "make_optimizer raised KeyError: 'head'"),
        (
            {"trainable": lambda name, p: p.rank},
            "trainable raised AttributeError: .*, for 0.weight",
        ),
    ],
)
def test_an_option_that_cannot_be_used_is_refused(options: Any, advice: str) -> None:
    with pytest.raises(ConfigError, match=advice):
        check_gradients(tower(), rows(3, 6), squares, **options)


@pytest.mark.parametrize("trainable", [lambda *rest: True, lambda name, p, deep=1: True, max])
def test_a_predicate_of_two_arguments_is_accepted(trainable: Any) -> None:
    check_options(trainable, (), "no_grad", None, None)


def test_a_loader_is_no_batch() -> None:
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(rows(3, 6)))
    for probe in (loader, loader.dataset, iter([rows(3, 6)])):
        with pytest.raises(ConfigError, match=r"next\(iter\(loader\)\)"):
            check_gradients(tower(), probe, squares)


@pytest.mark.parametrize(
    ("probe", "text"),
    [
        (None, "probe is None. Pass one small batch"),
        (rows(3, 6)[:0], r"probe holds no values, only \(0, 6\)"),
        ({"x": rows(3, 6)[:0], "y": torch.zeros(0)}, r"only \(0, 6\), \(0,\)"),
    ],
)
def test_no_batch_and_an_empty_one_are_refused(probe: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        check_gradients(tower(), probe, squares)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_a_nested_tensor_without_a_shape_is_refused() -> None:
    nested = torch.nested.nested_tensor([rows(2, 6), rows(3, 6)])
    for probe in (nested, {"x": rows(3, 6), "y": nested}):
        with pytest.raises(
            ConfigError, match=r"nested tensor .* with layout=torch\.jagged, or pad"
        ):
            check_gradients(tower(), probe, squares)
    jagged = torch.nested.nested_tensor([rows(2, 6), rows(3, 6)], layout=torch.jagged)
    check_probe(jagged)
