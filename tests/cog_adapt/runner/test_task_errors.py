"""What a task's function raises names the function, and nothing else is changed."""

import asyncio
import functools
import itertools
import re

import pytest
import torch
from torch import nn

from cog_adapt import (
    Example,
    InputError,
    ModelRunner,
    Recipe,
    Request,
    RunnerSettings,
    Task,
    answer,
)
from cog_adapt.runner.errors import TaskError
from cog_adapt.runner.task.errors import named, naming

SEEDS = itertools.count()


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no words")


def decorated(function):
    @functools.wraps(function)
    def wrapper(*given):
        return function(*given)

    return wrapper


class Lengths(Task):
    """Fails where it is told to."""

    fails = ""
    error: Exception = KeyError("width")

    def _step(self, name):
        if self.fails == name:
            raise self.error

    def load(self):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(1, 2), nn.Linear(2, 1))

    def example(self, row):
        self._step("example")
        return super().example(row)

    @decorated
    def encode(self, inputs):
        self._step("encode")
        return {"x": torch.tensor([[float(len(text))] for text in inputs])}

    def encode_targets(self, targets, labels):
        self._step("encode_targets")
        return super().encode_targets(targets, labels)

    def loss(self, module, batch, targets):
        self._step("loss")
        return (module(batch["x"])[:, 0] - targets).square()

    def predict(self, module, batch, labels, options):
        self._step("predict")
        return module(batch["x"])[:, 0].tolist()

    def probe(self):
        return [Example("a", 1.0), Example("ab", 2.0)]


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    settings = RunnerSettings(device="cpu", weights_dir=tmp_path_factory.mktemp("weights"))
    with ModelRunner(Lengths(), settings) as runner:
        yield runner


@pytest.fixture
def failing(runner):
    yield runner.task
    for name in ("fails", "error"):
        vars(runner.task).pop(name, None)


def asked(runner):
    rows = [{"input": "abc", "target": 3}, {"input": "a", "target": 1}]
    recipe = Recipe(max_steps=1, seed=next(SEEDS))  # so that nothing is known from before
    request = Request(["ab"], examples=rows, recipe=recipe, fresh=True)
    return asyncio.run(answer(runner, request))


@pytest.mark.parametrize("hook", ["example", "encode", "encode_targets", "loss", "predict"])
def test_the_function_is_named_and_the_cause_kept(runner, failing, hook):
    failing.fails = hook
    said = f"Lengths.{hook} raised KeyError: 'width'. Send inputs that it can read, or correct it"
    with pytest.raises(TaskError, match=re.escape(said)) as raised:
        asked(runner)
    assert raised.value.__cause__ is Lengths.error
    failing.fails = ""
    assert asked(runner).predictions  # and the next request is answered


@pytest.mark.parametrize("method", ["auto", "all"])
def test_a_row_whose_loss_cannot_be_computed_is_named(runner, failing, monkeypatch, method):
    loss = failing.loss

    def bounded(self, module, batch, targets):
        if (targets > 5).any():
            raise IndexError("Target 7 is out of bounds.")
        return loss(module, batch, targets)

    monkeypatch.setattr(Lengths, "loss", bounded)
    rows = [{"input": "a" * n, "target": n} for n in (1, 2, 3, 7, 4, 8)]
    request = Request(["ab"], examples=rows, recipe=Recipe(method, max_steps=2), fresh=True)
    said = "row 4 (target 7): Lengths.loss raised IndexError: Target 7 is out of bounds. Send inp"
    with pytest.raises(TaskError, match=f"^{re.escape(said)}") as raised:
        asyncio.run(answer(runner, request))
    assert isinstance(raised.value.__cause__, IndexError)


def test_an_error_whose_text_fails_is_named_by_its_class(runner, failing):
    failing.fails, failing.error = "predict", Mute()
    with pytest.raises(TaskError, match=r"Lengths\.predict raised Mute\. Send"):
        asked(runner)


def test_what_a_task_refuses_is_said_in_its_own_words(runner, failing):
    failing.fails, failing.error = "encode", InputError("a word is 'x y'. Send one.")
    with pytest.raises(InputError, match=r"^a word is 'x y'\. Send one\.$"):
        asked(runner)


def test_other_errors_are_left():
    task = Lengths()
    with pytest.raises(ZeroDivisionError) as raised, naming(task):
        _ = 1 / 0
    assert named(task, raised.value) is raised.value
    end = KeyboardInterrupt()
    assert named(task, end) is end
