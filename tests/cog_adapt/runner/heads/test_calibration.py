"""Calibration has the least loss that there is, and few examples choose nothing extreme."""

import itertools
import math

import pytest
import torch
from torch.nn import functional as F

from cog_adapt.runner.heads.calibration import (
    NO_WRONG_LABELS,
    Calibration,
    WrongLabelShare,
    balanced_weights,
    calibrate,
    effective_count,
    noisy_label_losses,
    weighted_loss,
    wrong_label_share,
)


def answers(count, strength, seed=0):
    """Logits of two labels that lean to the right one, too surely, and to the first label."""
    draw = torch.Generator().manual_seed(seed)
    targets = torch.arange(count) % 2
    right = F.one_hot(targets, 2).double() * strength
    logits = right + torch.randn(count, 2, generator=draw, dtype=torch.float64) * strength
    return logits + torch.tensor([1.0, 0.0]), targets


def penalized(logits, targets, shares, log_scale, offset):
    """The loss with its prior, at an offset for the first label and its opposite for the other."""
    offsets = torch.tensor([offset, -offset], dtype=torch.float64)
    outputs = logits * torch.tensor(log_scale, dtype=torch.float64).exp() + offsets
    losses = F.cross_entropy(outputs, targets, reduction="none")
    return float((losses * shares).sum()) + 6.0 * log_scale**2 / 2 + offset**2


@pytest.mark.parametrize("strength", [0.3, 1.0, 2.0])
def test_no_scale_and_no_offset_of_a_fine_grid_have_less_loss(strength):
    logits, targets = answers(30, strength)
    weights = torch.linspace(0.2, 3.0, 30, dtype=torch.float64)
    fitted = calibrate(logits, targets, weights, NO_WRONG_LABELS)
    shares = weights * effective_count(weights) / weights.sum()
    log_scale = float(torch.tensor(fitted.scale, dtype=torch.float64).log())
    least = penalized(logits, targets, shares, log_scale, float(fitted.offsets[0]))
    scales, offsets = torch.linspace(-3, 1.5, 91), torch.linspace(-2, 2, 81)
    grid = itertools.product(scales.tolist(), offsets.tolist())
    best = min(penalized(logits, targets, shares, *point) for point in grid)
    assert least <= best < least + 0.05
    assert float(fitted.offsets.sum()) == pytest.approx(0, abs=1e-9)


def test_logits_that_are_too_sure_are_made_less_so():
    logits, targets = answers(60, 3.0)
    weights = torch.ones(60, dtype=torch.float64)
    fitted = calibrate(logits, targets, weights, NO_WRONG_LABELS)
    assert fitted.scale < 0.6
    before = weighted_loss(logits, targets, weights)
    assert weighted_loss(fitted(logits), targets, weights) < before


def test_labels_with_one_example_each_have_no_offsets():
    logits = torch.tensor([[2.0, 1.0, 0.0], [1.5, 1.0, 0.0], [1.0, 0.0, 3.0]])
    fitted = calibrate(logits, torch.arange(3), torch.ones(3, dtype=torch.float64))
    assert fitted.offsets.tolist() == [0, 0, 0]
    assert fitted.scale != 1


def test_a_second_example_of_a_label_gives_offsets():
    logits = torch.tensor([[2.0, 1.0, 0.0], [1.5, 1.0, 0.0], [1.0, 0.0, 3.0], [2.0, 1.0, 0.0]])
    targets = torch.tensor([0, 1, 2, 1])
    assert calibrate(logits, targets, torch.ones(4, dtype=torch.float64)).offsets[1] > 0


def test_few_examples_move_less_than_many():
    drawn = [answers(count, 3.0) for count in (8, 400)]
    few, many = (
        calibrate(logits, targets, torch.ones(len(targets), dtype=torch.float64))
        for logits, targets in drawn
    )
    assert 1 > few.scale > 1.5 * many.scale
    right = torch.eye(2).repeat(2, 1)
    held = calibrate(right, torch.tensor([0, 1, 0, 1]), torch.ones(4, dtype=torch.float64))
    assert 1 < held.scale < 1.5  # without a prior there would be no end to it


def test_a_calibration_scales_and_then_adds():
    doubled = Calibration(2.0, torch.tensor([0.0, 1.0]))
    assert doubled(torch.tensor([[1.0, 3.0]])).tolist() == [[2.0, 7.0]]


def test_each_class_has_the_same_weight_and_the_mean_is_one():
    targets = torch.tensor([0, 0, 0, 0, 1, 2, 2])
    weights = balanced_weights(targets, 3)
    sums = torch.zeros(3, dtype=torch.float64).index_add(0, targets, weights)
    assert sums.tolist() == pytest.approx([7 / 3] * 3)
    assert float(weights.mean()) == pytest.approx(1)


def test_unequal_weights_tell_as_much_as_fewer_equal_ones():
    assert effective_count(torch.full((5,), 3.0)) == pytest.approx(5)
    assert effective_count(torch.tensor([1.0, 0.0, 0.0])) == pytest.approx(1)
    assert effective_count(torch.tensor([3.0, 1.0])) == pytest.approx(1.6)


def test_a_weighted_loss_is_a_weighted_mean():
    logits, targets = answers(3, 1.0)
    each = F.cross_entropy(logits, targets, reduction="none").tolist()
    weights = torch.tensor([1.0, 0.0, 3.0], dtype=torch.float64)
    expected = (each[0] + 3 * each[2]) / 4
    assert float(weighted_loss(logits, targets, weights)) == pytest.approx(expected)


def ten_labels(count, wrong=0.0, seed=0):
    """Logits whose labels are drawn by them, before a share of the labels is replaced by chance."""
    draw = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(count, 10, generator=draw, dtype=torch.float64)
    right = torch.multinomial(logits.softmax(1), 1, generator=draw)[:, 0]
    chance = torch.randint(10, (count,), generator=draw)
    is_wrong = torch.rand(count, generator=draw) < wrong
    return logits, torch.where(is_wrong, chance, right), right


@pytest.mark.parametrize("seed", range(5))
def test_wrong_labels_are_found_and_do_not_make_logits_less_sure(seed):
    logits, targets, right = ten_labels(150, 0.25, seed)
    weights = torch.ones(150, dtype=torch.float64)
    wrong_share = wrong_label_share(logits, targets, weights)
    assert not wrong_share.is_open
    assert 0.1 < wrong_share.wrong < 0.35
    fitted, trusting = (
        calibrate(logits, targets, weights, each) for each in (None, NO_WRONG_LABELS)
    )
    assert fitted.scale > 1.2 * trusting.scale
    losses = [float(weighted_loss(each(logits), right, weights)) for each in (fitted, trusting)]
    assert losses[0] < losses[1]


@pytest.mark.parametrize("seed", range(5))
def test_where_labels_are_right_no_share_of_wrong_labels_is_found(seed):
    logits, targets, _ = ten_labels(150, 0.0, seed)
    wrong_share = wrong_label_share(logits, targets, torch.ones(150, dtype=torch.float64))
    assert wrong_share.is_open
    assert wrong_share.wrong < 0.03


def test_a_calibration_lies_between_those_of_the_shares_that_are_likely():
    """Few examples leave it open how many labels are wrong."""
    logits, targets, _ = ten_labels(40, 0.25, 1)
    weights = torch.ones(40, dtype=torch.float64)
    believed = torch.zeros(7, dtype=torch.float64)
    scales = []
    for place in (0, 4):
        believed = torch.zeros(7, dtype=torch.float64)
        believed[place] = 1
        scales.append(calibrate(logits, targets, weights, WrongLabelShare(believed)).scale)
    believed[0] = believed[4] = 0.5
    half = calibrate(logits, targets, weights, WrongLabelShare(believed)).scale
    assert scales[0] < half < scales[1]
    assert half == pytest.approx(math.sqrt(scales[0] * scales[1]), rel=1e-3)


def test_labels_of_few_examples_are_taken_as_right():
    logits = torch.eye(4, dtype=torch.float64).repeat(3, 1) * 9
    targets = torch.arange(4).repeat(3)
    targets[0] = 1  # label 0 has two examples left, label 1 has four
    losses = noisy_label_losses(logits, targets, 0.2)
    sure = float(logits[:1].softmax(1)[0, 0])
    assert float(losses[4]) == pytest.approx(-math.log(sure))
    assert float(losses[1]) == pytest.approx(-math.log(0.8 * sure + 0.05))


def test_the_loss_of_a_possibly_wrong_label_has_an_end():
    logits = torch.tensor([[900.0, 0.0]] * 5, dtype=torch.float64)
    losses = noisy_label_losses(logits, torch.ones(5, dtype=torch.int64), 0.2)
    assert losses.tolist() == pytest.approx([-math.log(0.1)] * 5)
