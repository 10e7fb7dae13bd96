"""What an adaptation begins with: AdamW, encoded examples, and a loss of module and batch."""

import dataclasses
from typing import Any

import pytest
import torch
from torch import nn

from cog_adapt.runner.adaptation.start import (
    Resumption,
    Start,
    StepRows,
    Trainable,
    TrainingConfig,
    TrainingSet,
    adamw,
    encode_examples,
    example_loss,
    weighted_loss,
)
from cog_adapt.runner.config import Recipe
from cog_adapt.runner.errors import AdaptationError, InputError
from gradient_check.phases.precision import Precision
from gradient_check.tests.models import LABELS
from tests.cog_adapt.models import Images, examples

CPU = torch.device("cpu")


def test_adamw_has_the_rate_and_the_recipes_weight_decay_and_is_fused():
    parameter = nn.Parameter(torch.ones(2))
    optimizer = adamw(Recipe(weight_decay=0.25), 0.125)([parameter])
    (group,) = optimizer.param_groups
    assert type(optimizer) is torch.optim.AdamW
    assert (group["lr"], group["weight_decay"], group["fused"]) == (0.125, 0.25, True)
    assert group["params"] == [parameter]


def test_examples_become_a_batch_and_targets_row_by_row():
    chosen = examples("images", 4)
    batch, targets = encode_examples(Images(), chosen, LABELS, CPU)
    assert torch.allclose(batch["x"], torch.tensor([example.input for example in chosen]))
    assert targets.tolist() == [LABELS.index(example.target) for example in chosen]


def test_examples_are_put_on_the_device():
    batch, targets = encode_examples(Images(), examples("images"), LABELS, torch.device("meta"))
    assert batch["x"].device.type == targets.device.type == "meta"


def test_the_loss_of_a_pair_is_the_tasks():
    task = Images()
    module = task.load().eval()
    pair = encode_examples(task, examples("images", 5), LABELS, CPU)
    losses = example_loss(task)(module, pair)
    assert losses.shape == (5,)
    assert torch.equal(losses, task.loss(module, *pair))


def test_a_start_begins_anew_keeps_nothing_and_cannot_be_changed():
    rows, recipe, precision = examples("images"), Recipe(), Precision(CPU)
    start: Any = Start(
        task=Images(),
        trained=Trainable(template=nn.Identity(), tensors={}),
        data=TrainingSet(examples=rows, labels=LABELS),
        training=TrainingConfig(recipe=recipe, precision=precision, learning_rate=0.1),
    )
    assert start.resumption == Resumption(state=None, keep=None, every=50)
    with pytest.raises(dataclasses.FrozenInstanceError):
        start.training.learning_rate = 0.2


def weighted(weights, count=3):
    return TrainingSet(examples=examples("images", count), labels=LABELS, weights=weights)


@pytest.mark.parametrize("weights", [None, [1, 0, 2.5]])
def test_weights_are_one_for_each_example(weights):
    assert weighted(weights).weights == weights


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ([1.0, 1.0], "2 weights for 3 examples"),
        ([1.0, -0.5, 1.0], r"a weight is -0\.5"),
        ([1.0, float("nan"), 1.0], "a weight is nan"),
        ([1.0, float("inf"), 1.0], "a weight is inf"),
        ([0.0, 0.0, 0.0], "a weight is all 0"),
    ],
)
def test_weights_that_give_no_mean_are_refused(weights, said):
    with pytest.raises(InputError, match=said):
        weighted(weights)


def loss_of(weights):
    task = Images()
    module = task.load().eval()
    batch, targets = encode_examples(task, examples("images", 3), LABELS, CPU)
    plain = task.loss(module, batch, targets)
    return plain, weighted_loss(task)(module, StepRows(batch, targets, weights, (0, 1, 2)))


def test_the_mean_of_a_weighted_loss_is_weighted():
    plain, weighted = loss_of(torch.tensor([1.0, 0.0, 3.0]))
    assert weighted.mean().item() == pytest.approx((plain[0] + 3 * plain[2]).item() / 4)
    assert weighted[1] == 0


@pytest.mark.parametrize("weights", [None, torch.ones(3), torch.full((3,), 4.0)])
def test_equal_weights_leave_the_losses_bit_for_bit(weights):
    plain, weighted = loss_of(weights)
    assert torch.equal(plain, weighted)


def test_a_batch_of_weights_that_are_all_0_has_the_loss_0():
    _, weighted = loss_of(torch.zeros(3))
    assert weighted.mean().item() == 0


def test_weights_want_one_loss_for_each_example():
    task = Images()
    task.fault = lambda losses: losses.mean()
    batch, targets = encode_examples(task, examples("images", 3), LABELS, CPU)
    with pytest.raises(AdaptationError, match=r"Images\.loss gave shape \(\) for 3 weighted"):
        weighted_loss(task)(task.load(), StepRows(batch, targets, torch.ones(3), (0, 1, 2)))
