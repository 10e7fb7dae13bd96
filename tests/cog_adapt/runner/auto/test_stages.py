"""`auto` of a task that starts its head from the examples, and has no features of them."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from cog_adapt.runner.adaptation.report import Snapshot, Step
from cog_adapt.runner.adaptation.start import Checkpoints
from cog_adapt.runner.config import AUTO, Recipe
from cog_adapt.runner.heads.decision import GRADIENTS, HEAD_STEPS, START
from tests.cog_adapt.devices import DEVICE
from tests.cog_adapt.models import Labelled
from tests.cog_adapt.runner.featured import TrunkNet, drained, guessed, loaded, separated

RECIPE = Recipe(AUTO, max_steps=40, batch_size=8, learning_rate=0.02)


class Started(Labelled):
    """Rows in, a label out; a label's row of the head is the mean of its examples."""

    lora_targets = "fc"
    scale = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def module(self) -> nn.Module:
        return TrunkNet()

    def start(self, module, labels, examples):
        tensors = super().start(module, labels, examples)
        if not examples:
            return tensors
        self.seen.append(len(examples))
        batch = self.encode([each.input for each in examples])
        rows = module.trunk(**{name: tensor.to(DEVICE) for name, tensor in batch.items()})
        means = [rows[[each.target == label for each in examples]].mean(0) for label in labels]
        return tensors | {"head.weight": self.scale * torch.stack(means)}


class Unsaid(Started):
    """A head that finds all labels equally likely."""

    scale = 0.0


class Noting(Started):
    """Notes the targets of the examples that are scored."""

    def __init__(self) -> None:
        super().__init__()
        self.answered: list[int] = []

    def score(self, module, batch, targets):
        self.answered += targets.tolist()
        return super().score(module, batch, targets)


def run(task, examples, checkpoints=None, **more):
    recipe = replace(RECIPE, **more)
    return drained(loaded(task).adapting(examples, recipe, checkpoints=checkpoints))


def test_what_a_task_starts_with_comes_before_any_step_and_the_best_is_learned_from_all():
    (early, *steps), done = run(Started(), separated(24))
    assert isinstance(early, Snapshot)
    assert early.expected == "no estimate: nothing was compared with it yet"
    assert early.labels == done.adapter.labels
    assert [type(each) for each in steps] == [Step] * 40
    decision = done.report.decision
    assert list(decision.candidates) == [START, HEAD_STEPS, GRADIENTS]
    least = min(decision.candidates, key=lambda name: decision.candidates[name].loss)
    assert decision.chosen == least
    assert done.report.score_before == decision.candidates[START].score
    assert done.report.score_after == decision.candidates[least].score > done.report.score_before
    assert (
        done.report.method == done.adapter.method == {GRADIENTS: "lora", HEAD_STEPS: "head"}[least]
    )


def test_the_same_examples_give_the_same_bits_and_the_same_decision():
    (_, one), (_, two) = (run(Started(), separated(24)) for _ in range(2))
    assert one.adapter.id == two.adapter.id
    assert one.report.decision == two.report.decision


def test_each_example_is_answered_by_a_model_that_has_not_seen_it():
    task = Started()
    run(task, separated(24), max_steps=4)
    assert task.seen == [24, *[18] * 4 * 3, 24]


def test_of_many_examples_some_of_each_label_are_answered():
    task = Noting()
    examples = sorted(separated(2000), key=lambda each: str(each.target))
    _, done = run(task, examples, max_steps=4)
    assert len(task.answered) <= 3 * 128
    assert len(set(task.answered)) == len({each.target for each in examples})
    assert START in done.report.decision.candidates


def test_a_stage_that_answers_worse_ends_them_and_the_one_before_it_is_kept():
    progress, done = run(Unsaid(), guessed(24), learning_rate=0.5)
    assert [type(each) for each in progress] == [Snapshot]
    decision = done.report.decision
    assert list(decision.candidates) == [START, HEAD_STEPS]
    assert decision.chosen == START
    assert done.report.stop_reason == "decided"
    assert done.report.method == "head"
    early = progress[0].tensors
    assert {n: t.tolist() for n, t in done.adapter.tensors.items()} == {
        n: t.tolist() for n, t in early.items()
    }


@pytest.mark.parametrize(
    ("count", "more", "said"), [(6, {}, "too few"), (24, {"hold_out": 0.25}, "held out")]
)
def test_few_examples_and_those_with_held_out_rows_get_the_tasks_own_method(count, more, said):
    progress, done = run(Started(), separated(count), **more)
    assert [type(each) for each in progress] == [Snapshot, *[Step] * 40]
    assert done.report.method == "lora"
    assert done.report.decision.sentence.startswith("no estimate")
    assert said in done.report.decision.sentence


def test_a_budget_that_is_over_returns_what_the_task_starts_with():
    progress, done = run(Started(), separated(24), budget_seconds=0.001)
    assert [type(each) for each in progress] == [Snapshot]
    assert done.report.stop_reason == "budget_seconds"
    assert done.report.decision.chosen == START


def test_a_task_whose_own_method_is_its_head_has_two_stages():
    task = Started()
    task.method = "head"
    _, done = run(task, separated(24))
    assert list(done.report.decision.candidates) == [START, HEAD_STEPS]


def test_the_state_of_another_stage_is_not_resumed():
    states: list[Any] = []
    run(Started(), separated(24), Checkpoints(lambda: None, states.append, 1), hold_out=0.25)
    task = Started()
    task.method = "head"
    _, done = run(task, separated(24), Checkpoints(lambda: states[0], lambda _: None, 1))
    assert done.report.method == "head"
    assert {*done.adapter.tensors} == {"head.weight", "head.bias"}
