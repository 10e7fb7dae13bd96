"""What a task need not write itself, and what it must."""

import re

import pytest
import torch

from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.errors import ConfigError, InputError
from cog_adapt.runner.task.task import Task, load_module, on_device
from gradient_check.tests.models import Curve, seeded_module
from tests.cog_adapt.models import Labelled, Regression, examples


class Bare(Regression):
    """A task with the defaults of `Task` alone, where it has some."""

    labels = Task.labels
    start = Task.start
    score = Task.score
    head = Task.head
    unused = Task.unused
    encode_targets = Task.encode_targets
    lora_targets = Task.lora_targets


def test_a_task_without_labels_has_none_and_starts_from_nothing():
    task = Bare()
    assert task.labels(examples("regression")) == ()
    assert task.start(seeded_module(Curve), (), ()) == {}


def test_targets_are_places_in_the_label_set_or_numbers():
    task = Bare()
    assert task.encode_targets(["b", "a", "b"], ("a", "b")).tolist() == [1, 0, 1]
    numbers = task.encode_targets([1, 2.5], ())
    assert numbers.tolist() == [1.0, 2.5]
    assert numbers.dtype is torch.float32
    assert task.encode_targets(["1", " 2.5 "], ()).tolist() == [1.0, 2.5]
    assert task.encode_targets([[1, 2], [3, 4]], ()).shape == (2, 2)
    with pytest.raises(InputError, match="label 'c' is not among 'a', 'b'. Use these"):
        task.encode_targets(["a", "c"], ("a", "b"))
    with pytest.raises(InputError, match=r"label \['a'\] is not among 'a', 'b'"):
        task.encode_targets([["a"]], ("a", "b"))


@pytest.mark.parametrize("targets", [["cat", 1], [None, 1], [[1], [1, 2]], [{"a": 1}], [10**400]])
def test_targets_that_are_no_numbers_are_refused_with_what_to_do(targets):
    with pytest.raises(InputError, match="are no numbers: .* Send numbers, all of one shape, or"):
        Bare().encode_targets(targets, ())


def test_a_row_has_the_usual_names_and_no_input_is_cut():
    task = Bare()
    assert task.example({"Sentence": [1], "label": 2}) == Example([1], 2)
    assert [*task.shortened(["a" * 100_000])] == []


def test_a_task_has_no_features_no_stream_and_no_options_until_it_says_so():
    task = Bare()
    assert task.features(seeded_module(Curve), {}) is None
    assert (task.options, task.stop_gradients) == (None, ())
    with pytest.raises(InputError, match="Bare gives no stream. Ask for a prediction"):
        task.generate(seeded_module(Curve), {}, None)


def test_a_lower_loss_is_a_higher_score():
    task, module = Bare(), seeded_module(Curve)
    batch = task.encode([example.input for example in examples("regression", 4)])
    targets = torch.tensor([0.0, 1.0, 2.0, 3.0])
    score = task.score(module, batch, targets)
    assert score.shape == (4,)
    assert torch.equal(score, -task.loss(module, batch, targets))


def test_by_default_the_head_is_what_is_called_head():
    names = ["head.weight", "head.sub.bias", "heads.weight", "a.head.weight", "head"]
    assert [n for n in names if re.fullmatch(Task.head, n)] == ["head.weight", "head.sub.bias"]


def test_by_default_every_linear_layer_is_adapted_and_no_parameter_is_unused():
    assert re.fullmatch(Task.lora_targets, "encoder.layer.0.query")
    assert not any(re.fullmatch(Task.unused, name) for name in ("", "pooler.weight"))


@pytest.mark.parametrize("method", ["load", "encode", "loss", "predict", "probe"])
def test_what_has_no_default_must_be_written(method):
    kind = type("Incomplete", (Labelled,), {method: getattr(Task, method)})
    with pytest.raises(TypeError, match=rf"abstract method '?{method}"):
        kind()


def test_a_batch_is_moved_whole():
    batch = {"ids": torch.ones(2, 3), "mask": torch.zeros(2)}
    moved = on_device(batch, torch.device("meta"))
    assert {name: tensor.device.type for name, tensor in moved.items()} == {
        "ids": "meta",
        "mask": "meta",
    }
    assert torch.equal(on_device(batch, torch.device("cpu"))["ids"], batch["ids"])


@pytest.mark.parametrize("attribute", ["lora_targets", "head", "blocks", "unused"])
@pytest.mark.parametrize("value", ["(", 5, None, b"a", ["weight", 3], "a{99999999999}"])
def test_a_pattern_that_is_no_regex_is_refused_before_the_load(attribute, value):
    def load(self):
        raise AssertionError("loaded")

    task = type("Own", (Bare,), {attribute: value, "load": load})()
    wanted = rf"Own\.{attribute} is {re.escape(repr(value))}, which is no regex \(.*Write one text"
    with pytest.raises(ConfigError, match=wanted):
        load_module(task)


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        ({"(": 2.0}, r"Own\.rates is '\(', which is no regex .*names of parameters"),
        ({"a": 0}, r"has the factor 0 for 'a'; allowed: above 0, to 1,000"),
        ({"a": 1001.0}, r"has the factor 1001\.0 for 'a'"),
        ({"a": "2"}, r"has the factor '2' for 'a'"),
        ({"a": True}, r"has the factor True for 'a'"),
        ({"a": float("nan")}, r"has the factor nan for 'a'"),
        ("style", r"Own\.rates is 'style', which is no mapping\. Write factors by regexes"),
        (None, r"Own\.rates is None, which is no mapping"),
    ],
)
def test_rates_are_factors_by_a_regex(rates, message):
    with pytest.raises(ConfigError, match=message):
        load_module(type("Own", (Bare,), {"rates": rates})())


def test_a_pattern_may_be_compiled():
    task = type("Own", (Bare,), {"lora_targets": re.compile(".*")})()
    assert isinstance(load_module(task), torch.nn.Module)
