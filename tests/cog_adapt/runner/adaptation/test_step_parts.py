"""A batch is cut by the sizes of its rows alone; what fits is one part, as it was."""

import random

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from cog_adapt.runner.adaptation.report import Step
from cog_adapt.runner.adaptation.step_parts import PartLimit, cost_of, cut, limit_for, mixes_rows
from gradient_check.tests.models import seeded_module
from tests.cog_adapt.models import Images


def padded(costs):
    return len(costs) * max(costs, default=0)


def test_a_batch_that_fits_is_one_part_in_its_own_order():
    assert cut([5, 3, 4], 15, padded) == [[0, 1, 2]]
    assert cut([5, 3, 4], 14, padded) == [[1, 2], [0]]
    assert cut([], 4, padded) == [[]]


def test_rows_of_like_length_go_together_and_equal_ones_in_their_order():
    assert cut([9, 2, 8, 2, 2, 9], 18, padded) == [[1, 3, 4], [2, 0], [5]]


def test_the_size_of_a_part_is_the_callers_to_say():
    assert cut([9, 2, 8, 2, 2, 9], 18, sum) == [[1, 3, 4, 2], [0, 5]]
    assert cut([5, 3, 4], 12, sum) == [[0, 1, 2]]


def test_what_is_longer_than_a_part_is_alone():
    assert cut([40, 2, 50], 18, padded) == [[1], [0], [2]]


@pytest.mark.parametrize("seed", range(20))
def test_every_row_is_in_one_part_and_no_part_is_too_large(seed):
    draw = random.Random(seed)
    costs = [draw.randint(1, 30) for _ in range(draw.randint(2, 40))]
    parts = cut(costs, 60, padded)
    assert sorted(row for part in parts for row in part) == [*range(len(costs))]
    assert all(len(part) * max(costs[row] for row in part) <= 60 for part in parts)
    assert parts == cut(costs, 60, padded)


def test_a_row_costs_the_tokens_of_its_mask_or_else_a_share_of_its_numbers():
    mask = torch.tensor([1, 1, 1, 0, 0])
    assert cost_of({"ids": torch.ones(5), "attention_mask": mask}) == 3
    assert cost_of({"attention_mask": torch.zeros(5)}) == 1
    assert cost_of({"x": torch.ones(8)}) == 1
    assert cost_of({"picture": torch.ones(3, 224, 224)}) == 74


def test_a_task_says_how_many_tokens_or_the_device_does():
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    task = Images()
    assert (limit_for(task, cpu).tokens, limit_for(task, cuda).tokens) == (192, 16_384)
    task.part_tokens = 7
    assert (limit_for(task, cpu).tokens, limit_for(task, cuda).tokens) == (7, 7)


def test_tokens_that_cost_less_are_more_until_memory_ran_out():
    limit = PartLimit(tokens=100)
    assert (limit.of(1.0), limit.of(3.5)) == (100, 350)
    limit.steps = 4
    limit.halve(90)
    assert (limit.halved_at, limit.of(1.0), limit.of(3.5)) == (5, 45, 45)


def test_a_replayed_halving_is_due_before_its_step_once():
    limit = PartLimit(halve_at=2)
    assert not limit.is_due
    limit.steps = 1
    assert limit.is_due
    limit.halve(8)
    assert not limit.is_due


def test_what_a_run_goes_on_from_says_what_was_halved():
    def step(number, halved_to=0):
        return Step(number, 9, 1.0, 1.0, 0.1, 0.1, halved_to=halved_to)

    limit = PartLimit()
    limit.go_on([step(1), step(2)])
    assert (limit.steps, limit.halved_at, limit.of(1.0)) == (2, None, 16_384)
    limit.go_on([step(1), step(2, halved_to=6), step(3)])
    assert (limit.steps, limit.halved_at, limit.of(1.0)) == (3, 2, 6)


MIXING = {
    "batch norm that trains": (lambda: nn.BatchNorm1d(4), True, True),
    "batch norm in eval mode": (lambda: nn.BatchNorm1d(4), False, False),
    "without running statistics": (
        lambda: nn.BatchNorm1d(4, track_running_stats=False),
        False,
        True,
    ),
    "instance norm": (lambda: nn.InstanceNorm1d(4, track_running_stats=False), True, False),
    "spectral norm that trains": (
        lambda: parametrizations.spectral_norm(nn.Linear(4, 4)),
        True,
        True,
    ),
    "spectral norm in eval mode": (
        lambda: parametrizations.spectral_norm(nn.Linear(4, 4)),
        False,
        False,
    ),
    "weight norm": (lambda: parametrizations.weight_norm(nn.Linear(4, 4)), True, False),
    "layer norm": (lambda: nn.LayerNorm(4), True, False),
}


@pytest.mark.parametrize("case", MIXING)
def test_layers_that_see_all_rows_or_change_are_found(case):
    make, trains, expected = MIXING[case]
    net = nn.Sequential(nn.Linear(4, 4), seeded_module(make))
    names = {name for name, _ in net.named_modules()} if trains else set()
    assert mixes_rows(net, names) is expected
