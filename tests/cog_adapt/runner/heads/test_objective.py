"""Labels count the same, a wrong one counts less, and numbers are judged by R²."""

import math

import pytest
import torch
from torch.nn import functional as F

from cog_adapt.runner.heads.calibration import (
    NO_WRONG_LABELS,
    Calibration,
    balanced_weights,
    calibrate,
)
from cog_adapt.runner.heads.closed_form import (
    MIXTURE,
    OF_FEW,
    ClosedForm,
    fit_classes,
    fit_numbers,
)
from cog_adapt.runner.heads.linear_head import LinearHead
from cog_adapt.runner.heads.objective import Labels, Numbers

TARGETS = torch.tensor([0, 0, 0, 0, 1, 1, 2, 2])
PRIOR = LinearHead(torch.eye(3, 4), torch.zeros(3))
FEATURES = torch.randn(8, 4, generator=torch.Generator().manual_seed(2))
SOME = torch.tensor([1, 2, 4, 5, 6])
LABELS = Labels(TARGETS, PRIOR)
OUTPUTS = FEATURES[:, :3]
NUMBERS = Numbers(
    FEATURES[:, :2] * torch.tensor([1.0, 100.0]), LinearHead(PRIOR.weight[:2], PRIOR.bias[:2])
)


def form_of(left_out):
    return ClosedForm(PRIOR, left_out, {})


def test_labels_are_fitted_by_the_chosen_examples():
    form = LABELS.fit(FEATURES, SOME)
    alone = fit_classes(FEATURES[SOME], TARGETS[SOME], PRIOR, OF_FEW)
    assert torch.equal(form.head.weight, alone.head.weight)
    assert LABELS.groups == TARGETS.tolist()


def test_labels_without_priors_are_fitted_by_heads_that_are_less_sure_of_few_examples():
    """Classes that overlap, one example of each: nothing says how far a class reaches."""
    chance = torch.Generator().manual_seed(3)
    classes, everything = torch.arange(3), torch.arange(3)
    nothing = LinearHead(torch.zeros(3, 4), torch.zeros(3))
    asked = torch.arange(300) % 3
    losses = []
    for _ in range(20):
        means = torch.randn(3, 4, generator=chance)
        examples = means + torch.randn(3, 4, generator=chance)
        found = Labels(classes, nothing).fit(examples, everything)
        usual = fit_classes(examples, classes, nothing, MIXTURE)
        rows = means[asked] + torch.randn(300, 4, generator=chance)
        losses.append([F.cross_entropy(form.head(rows), asked) for form in (found, usual)])
    own, of_usual = torch.tensor(losses).mean(0)
    assert own < of_usual - 0.2
    assert own < math.log(3)


def of_counts(*counts, prior=PRIOR):
    return Labels(torch.arange(len(counts)).repeat_interleave(torch.tensor(counts)), prior)


def test_gradients_on_many_examples_begin_before_what_was_fitted():
    labels, chosen = of_counts(20, 20, 20), torch.arange(60)
    features = FEATURES.repeat(8, 1)[:60]
    form = labels.fit(features, chosen)
    head = labels.begin(features, chosen, form)
    assert head.weight.shape == form.head.weight.shape
    assert not torch.allclose(head.weight, form.head.weight)
    assert not torch.equal(head.weight, PRIOR.weight)


def test_gradients_on_few_examples_begin_with_the_head_before_any():
    assert LABELS.begins_with_prior
    assert LABELS.begin(FEATURES, SOME, LABELS.fit(FEATURES, SOME)) is PRIOR


@pytest.mark.parametrize(
    ("counts", "few"),
    [((9, 10, 10), True), ((10, 10, 10), False), ((50, 50, 1), False)],
)
def test_fewer_than_thirty_examples_are_few(counts, few):
    assert of_counts(*counts).begins_with_prior is few


def test_a_prior_that_says_nothing_of_a_label_is_no_beginning():
    unknown = LinearHead(torch.eye(3, 4) * torch.tensor([1.0, 1.0, 0.0])[:, None], torch.zeros(3))
    assert not of_counts(4, 4, 4, prior=unknown).begins_with_prior
    assert not NUMBERS.begins_with_prior


@pytest.mark.parametrize(
    ("counts", "averages"),
    [((9, 10, 10), True), ((2, 1, 1), True), ((1, 1, 1), False), ((10, 10, 10), False)],
)
def test_few_examples_of_which_some_can_be_left_out_are_averaged(counts, averages):
    assert of_counts(*counts).averages is averages


def test_names_that_say_nothing_and_numbers_are_not_averaged():
    nothing = LinearHead(torch.zeros(3, 4), torch.zeros(3))
    assert not of_counts(4, 4, 4, prior=nothing).averages
    assert not NUMBERS.averages


def test_of_many_examples_a_part_is_fitted_as_all_are():
    """What is chosen by folds of many must not be another head than the one that is chosen."""
    labels, features = of_counts(20, 20, 20), FEATURES.repeat(8, 1)[:60]
    some = torch.tensor([*range(4), *range(20, 24), *range(40, 44)])
    alone = fit_classes(features[some], labels.targets[some], PRIOR)
    assert torch.equal(labels.fit(features, some).head.weight, alone.head.weight)


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
    found = LABELS.calibration(OUTPUTS[SOME], SOME, NO_WRONG_LABELS)
    weights = balanced_weights(TARGETS[SOME], 3)
    expected = calibrate(OUTPUTS[SOME], TARGETS[SOME], weights, NO_WRONG_LABELS)
    assert found.scale == expected.scale
    assert torch.equal(found.offsets, expected.offsets)


def test_the_score_of_labels_and_of_numbers_has_a_name():
    assert (LABELS.name, NUMBERS.name) == ("accuracy", "R²")


def test_numbers_are_fitted_by_the_chosen_examples_and_gradients_go_on_from_there():
    form = NUMBERS.fit(FEATURES, SOME)
    alone = fit_numbers(FEATURES[SOME], NUMBERS.targets[SOME], NUMBERS.prior)
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
    calibration = NUMBERS.calibration(NUMBERS.targets, torch.arange(8), NO_WRONG_LABELS)
    assert torch.equal(calibration(NUMBERS.targets), NUMBERS.targets)


def test_a_share_of_wrong_labels_lifts_the_score_and_bounds_the_losses():
    some = torch.arange(4)  # label 0 has enough examples for its labels to count as possibly wrong
    outputs = torch.tensor([[9.0, 0.0, 0.0]] * 3 + [[0.0, 900.0, 0.0]])
    scores = LABELS.right(outputs, some, wrong=0.3)
    assert float(scores.mean()) == pytest.approx((0.75 - 0.1) / 0.7)
    losses = LABELS.losses(outputs, some, wrong=0.3)
    assert float(losses[3]) == pytest.approx(-math.log(0.1))
    assert LABELS.losses(outputs, some)[3] > 200


def test_the_model_of_all_examples_is_calibrated_to_be_less_sure():
    of_folds = Calibration(2.0, torch.tensor([0.0, 1.0, 2.0]))
    of_all = LABELS.calibration_of_all(of_folds)
    assert of_all.scale == pytest.approx(1.8)
    assert torch.equal(of_all.offsets, of_folds.offsets)
    assert NUMBERS.calibration_of_all(of_folds) is of_folds


def test_too_few_examples_to_fit_anything_have_a_stated_scale_that_is_less_for_few_labels():
    usual = LABELS.usual_calibration()
    assert usual.scale == pytest.approx(1.2 * (2 / 3) ** 2)
    assert usual.offsets.tolist() == [0, 0, 0]
    of_numbers = NUMBERS.usual_calibration()
    assert (of_numbers.scale, of_numbers.offsets.tolist()) == (1.0, [0, 0])
