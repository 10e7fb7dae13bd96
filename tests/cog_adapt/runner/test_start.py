"""What an adaptation begins with: AdamW, encoded examples, and a loss of module and batch."""

import dataclasses
from typing import Any

import pytest
import torch
from torch import nn

from cog_adapt.runner.config import Precision, Recipe
from cog_adapt.runner.start import Start, adamw, encode_examples, example_loss
from tests.cog_adapt.models import LABELS, Images, examples

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
    start: Any = Start(Images(), nn.Identity(), {}, LABELS, rows, recipe, precision, 0.1)
    assert (start.resume, start.keep, start.keep_every) == (None, None, 50)
    with pytest.raises(dataclasses.FrozenInstanceError):
        start.learning_rate = 0.2
