"""Labels count the same, a wrong one counts less, and numbers are judged by R²."""

import pytest
import torch
from torch.nn import functional as F

from cog_adapt.runner.calibration import balanced_weights, calibrate
from cog_adapt.runner.closed_form import ClosedForm, LinearHead, fit_classes, fit_numbers
from cog_adapt.runner.objective import Labels, Numbers

TARGETS = torch.tensor([0, 0, 0, 0, 1, 1, 2, 2])
PRIOR = LinearHead(torch.eye(3, 4), torch.zeros(3))
FEATURES = torch.randn(8, 4, generator=torch.Generator().manual_seed(2))
SOME = torch.tensor([1, 2, 4, 5, 6])
LABELS = Labels(TARGETS, PRIOR)
OUTPUTS = FEATURES[:, :3]
NUMBERS = Numbers(FEATURES[:, :2] * torch.tensor([1.0, 100.0]), PRIOR)


def form_of(left_out):
    return ClosedForm(PRIOR, left_out, {})


def test_labels_are_fitted_by_the_chosen_examples():
    form = LABELS.fit(FEATURES, SOME)
    alone = fit_classes(FEATURES[SOME], TARGETS[SOME], PRIOR)
    assert torch.equal(form.head.weight, alone.head.weight)
    assert LABELS.groups == TARGETS.tolist()


def test_gradients_on_labels_begin_before_what_was_fitted():
    form = LABELS.fit(FEATURES, SOME)
    head = LABELS.begin(FEATURES, SOME, form)
    assert head.weight.shape == form.head.weight.shape
    assert not torch.allclose(head.weight, form.head.weight)


def test_labels_have_the_same_weight_together():
    sure = F.one_hot(TARGETS, 3).float() * 50
    weights = LABELS.weights(form_of(sure), torch.arange(8))
    sums = torch.zeros(3, dtype=torch.float64).index_add(0, TARGETS, weights)
    assert sums.tolist() == pytest.approx([8 / 3] * 3)
    assert torch.equal(weights, LABELS.importance(torch.arange(8)))


def test_a_label_that_its_own_left_out_answer_finds_unlikely_counts_less():
    left_out = F.one_hot(TARGETS, 3).float() * 50
    left_out[0], left_out[1] = torch.tensor([0.0, 50.0, 0.0]), torch.tensor([0.0, 1.0, 0.0])
    weights = LABELS.weights(form_of(left_out), torch.arange(8))
    full = balanced_weights(TARGETS, 3)
    assert (weights / full)[0] == pytest.approx(0.1)  # little, but some
    likely = left_out[1].softmax(0)
    assert (weights / full)[1] == pytest.approx(float(likely[0] / likely[1]), rel=1e-5)
    assert torch.equal(weights[2:], full[2:])


def test_weights_are_those_of_the_chosen_examples():
    sure = F.one_hot(TARGETS[SOME], 3).float() * 50
    assert torch.equal(LABELS.weights(form_of(sure), SOME), balanced_weights(TARGETS[SOME], 3))
    assert torch.equal(LABELS.importance(SOME), balanced_weights(TARGETS[SOME], 3))


def test_labels_are_judged_by_cross_entropy_and_by_the_best_label():
    outputs = OUTPUTS[SOME]
    expected = F.cross_entropy(outputs, TARGETS[SOME], reduction="none")
    torch.testing.assert_close(LABELS.losses(outputs, SOME).float(), expected)
    sure = F.one_hot(torch.tensor([0, 1, 1, 2, 2]), 3).float()
    assert LABELS.right(sure, SOME).tolist() == [1, 0, 1, 0, 1]


def test_labels_are_calibrated_with_the_same_weight_each():
    found = LABELS.calibration(OUTPUTS[SOME], SOME)
    expected = calibrate(OUTPUTS[SOME], TARGETS[SOME], balanced_weights(TARGETS[SOME], 3))
    assert found.scale == expected.scale
    assert torch.equal(found.offsets, expected.offsets)


def test_the_score_of_labels_and_of_numbers_has_a_name():
    assert (LABELS.name, NUMBERS.name) == ("accuracy", "R²")


def test_numbers_are_fitted_by_the_chosen_examples_and_gradients_go_on_from_there():
    form = NUMBERS.fit(FEATURES, SOME)
    alone = fit_numbers(FEATURES[SOME], NUMBERS.targets[SOME])
    assert torch.equal(form.head.weight, alone.head.weight)
    assert NUMBERS.begin(FEATURES, SOME, form) is form.head
    assert set(NUMBERS.groups) == {0}
    assert len(NUMBERS.groups) == 8


def test_numbers_all_count_the_same():
    form = NUMBERS.fit(FEATURES, SOME)
    assert NUMBERS.weights(form, SOME).tolist() == [1] * 5
    assert NUMBERS.importance(SOME).tolist() == [1] * 5


def test_the_score_of_numbers_is_what_is_explained_of_the_variance_in_any_unit():
    everything = torch.arange(8)
    mean = NUMBERS.targets.mean(0).expand(8, 2)
    assert float(NUMBERS.right(mean, everything).mean()) == pytest.approx(0, abs=1e-5)
    assert NUMBERS.right(NUMBERS.targets, everything).tolist() == [1] * 8
    half = (NUMBERS.targets + mean) / 2
    assert float(NUMBERS.right(half, everything).mean()) == pytest.approx(0.75)
    losses = NUMBERS.losses(half[SOME], SOME)
    torch.testing.assert_close(losses, 1 - NUMBERS.right(half[SOME], SOME))


def test_numbers_are_not_calibrated():
    calibration = NUMBERS.calibration(NUMBERS.targets, torch.arange(8))
    assert torch.equal(calibration(NUMBERS.targets), NUMBERS.targets)
