"""Each leave-one-out answer is what a fit without the example gives; a mean of heads is a head."""

import pytest
import torch
from torch.nn import functional as F

from cog_adapt.runner.heads.calibration import balanced_weights
from cog_adapt.runner.heads.closed_form import (
    MIXTURE,
    ClosedForm,
    FeatureSpace,
    FittedHead,
    Mixture,
    average,
    centroids,
    fit_classes,
    fit_numbers,
    number_heads,
    ridge,
    unfitted_classes,
)
from cog_adapt.runner.heads.linear_head import LinearHead

CLASSES = 3
TARGETS = torch.tensor([0] * 7 + [1] * 3 + [2] * 2)
NARROW, WIDE = 4, 20  # fewer and more columns than examples
LITTLE = Mixture((0.0, 1.0, 2.0), (1.0,), ridge_share=0.25, certainty=0.5, narrows=True)


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def assert_exact(found, wanted):
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-8)


def separated(width, targets=TARGETS, apart=1.5, seed=1):
    """Features around a mean for each class, far from the origin."""
    means = drawn(CLASSES, width, seed=seed) * apart
    return means[targets] + drawn(len(targets), width, seed=seed + 1) + 5


def separated_means(width=WIDE):
    return drawn(CLASSES, width, seed=1)


def prior_of(width, seed=7):
    return LinearHead(drawn(CLASSES, width, seed=seed).float(), torch.zeros(CLASSES))


def parts(width, targets=TARGETS):
    features = separated(width, targets)
    space = FeatureSpace.of(features, targets, CLASSES)
    return space.inside(features), space.rows(prior_of(width))


def without(position, *tensors):
    kept = torch.arange(len(tensors[0])) != position
    return [tensor[kept] for tensor in tensors]


def centroids_without(position, inside, targets, rows, count):
    """Fit centroids, and the centre between them, to all examples but one; answer that one."""
    others, labels = without(position, inside, targets)
    centre = torch.stack([others[labels == label].mean(0) for label in range(CLASSES)]).mean(0)
    sums = torch.stack([(others[labels == c] - centre).sum(0) for c in range(CLASSES)])
    return F.normalize(sums + count * rows, dim=1) @ (inside[position] - centre)


@pytest.mark.parametrize("width", [NARROW, WIDE])
@pytest.mark.parametrize("count", [0.5, 2.0, 4.0])
def test_centroids_leave_out_as_a_fit_without_the_example(width, count):
    inside, rows = parts(width)
    found = centroids("", inside, TARGETS, rows, count).left_out
    wanted = [centroids_without(i, inside, TARGETS, rows, count) for i in range(len(TARGETS))]
    assert_exact(found, torch.stack(wanted))


def test_the_only_example_of_a_class_is_answered_by_its_prior():
    targets = torch.tensor([0, 0, 0, 1, 1, 2])
    inside, rows = parts(NARROW, targets)
    fitted = centroids("", inside, targets, rows, 2.0)
    assert fitted.left_out[5, 2] == pytest.approx(float(inside[5] @ rows[2]), abs=1e-12)
    heads = fitted.head.weight[:2] @ inside[5]
    assert_exact(fitted.left_out[5, :2], heads)


@pytest.mark.parametrize("width", [NARROW, WIDE])
@pytest.mark.parametrize("penalty", [0.1, 3.0])
def test_ridge_leaves_out_as_a_fit_without_the_example(width, penalty):
    inside, rows = parts(width)
    weights = balanced_weights(TARGETS, CLASSES)
    wanted = F.one_hot(TARGETS, CLASSES).double()
    found = ridge("", inside, wanted, rows, weights, penalty)
    for position in range(len(TARGETS)):
        others, targets, left = without(position, inside, wanted, weights)
        head = ridge("", others, targets, rows, left, penalty).head
        assert_exact(found.left_out[position], head(inside[position]))


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_ridge_has_the_least_penalized_weighted_error(width):
    inside, rows = parts(width)
    weights, penalty = balanced_weights(TARGETS, CLASSES), 0.7
    wanted = F.one_hot(TARGETS, CLASSES).double()
    head = ridge("", inside, wanted, rows, weights, penalty).head
    change = torch.cat([(head.weight - rows).T, head.bias[None] / 0.3]).requires_grad_()
    columns = torch.cat([inside, torch.full((len(inside), 1), 0.3, dtype=torch.float64)], 1)
    errors = inside @ rows.T + columns @ change - wanted
    loss = (errors.square().sum(1) * weights).sum() + penalty * change.square().sum()
    (slope,) = torch.autograd.grad(loss, change)
    assert float(slope.abs().max()) < 1e-8


def test_an_average_of_heads_answers_with_the_average_of_their_answers():
    features = separated(WIDE)
    space = FeatureSpace.of(features, TARGETS, CLASSES)
    fitted = [
        FittedHead(str(seed), LinearHead(drawn(3, WIDE, seed=seed), drawn(3, seed=seed)), answers)
        for seed, answers in ((1, drawn(12, 3, seed=3)), (2, drawn(12, 3, seed=4)))
    ]
    whole = average(fitted, torch.tensor([0.25, 0.75], dtype=torch.float64), space)
    one, other = (each.head(space.inside(features)) for each in fitted)
    expected = (0.25 * one + 0.75 * other).float()
    torch.testing.assert_close(whole.head(features.float()), expected, rtol=1e-4, atol=1e-4)
    left_out = 0.25 * fitted[0].left_out + 0.75 * fitted[1].left_out
    torch.testing.assert_close(whole.left_out, left_out.float())
    assert dict(whole.shares) == {"1": 0.25, "2": 0.75}


def test_the_heads_that_leave_out_best_have_the_largest_shares():
    form = fit_classes(separated(WIDE), TARGETS, prior_of(WIDE))
    assert list(form.shares) == [
        "centroids, prior 2",
        "centroids, prior 4",
        "ridge 1",
        "ridge 3",
    ]
    assert sum(form.shares.values()) == pytest.approx(1, abs=1e-3)
    misled = LinearHead(-separated_means().float(), torch.zeros(CLASSES))
    shares = fit_classes(separated(WIDE, apart=0.6), TARGETS, misled).shares
    assert shares["centroids, prior 2"] > 1.1 * shares["centroids, prior 4"]


def test_names_that_say_little_hold_a_head_back_little():
    """Names that point elsewhere cost a part of what they cost when they always count."""
    targets = torch.arange(24) % CLASSES
    features = separated(WIDE, targets, apart=0.5)
    unseen = separated_means() * 0.5
    unseen = unseen[targets.repeat(10)] + drawn(240, WIDE, seed=91) + 5
    misled = LinearHead(10 * drawn(CLASSES, WIDE, seed=92).float(), torch.zeros(CLASSES))
    nothing = LinearHead(torch.zeros(CLASSES, WIDE), torch.zeros(CLASSES))

    def loss(prior, mixture=LITTLE):
        head = fit_classes(features, targets, prior, mixture).head
        return float(F.cross_entropy(head(unseen.float()), targets.repeat(10)))

    assert loss(misled) - loss(nothing) < 0.8 * (loss(misled, MIXTURE) - loss(nothing))


def test_a_label_without_examples_is_answered_by_its_prior():
    targets = torch.arange(12) % (CLASSES - 1)
    named = LinearHead(separated_means().float(), torch.zeros(CLASSES))
    form = fit_classes(separated(WIDE, targets), targets, named, LITTLE)
    assert "centroids, prior 0" not in form.shares
    unseen = separated_means()[-1:] * 3 + 5
    assert int(form.head(unseen.float()).argmax()) == CLASSES - 1


def test_without_priors_centroids_are_fitted_once():
    nothing = LinearHead(torch.zeros(CLASSES, WIDE), torch.zeros(CLASSES))
    shares = fit_classes(separated(WIDE), TARGETS, nothing, LITTLE).shares
    assert list(shares) == ["centroids, prior 0", "ridge 1"]


def test_a_head_answers_examples_that_it_has_not_seen():
    targets = torch.arange(30) % CLASSES
    form = fit_classes(separated(WIDE, targets), targets, prior_of(WIDE))
    means = separated_means() * 1.5
    unseen = means[targets] + drawn(30, WIDE, seed=90) + 5
    assert (form.head(unseen.float()).argmax(1) == targets).float().mean() > 0.9
    assert (form.left_out.argmax(1) == targets).float().mean() > 0.9
    assert isinstance(form, ClosedForm)


def test_a_head_answers_the_same_wherever_the_features_lie_and_however_long_they_are():
    features = separated(WIDE)
    one = fit_classes(features, TARGETS, prior_of(WIDE))
    moved = fit_classes(features * 3 + 2, TARGETS, prior_of(WIDE))
    torch.testing.assert_close(one.left_out, moved.left_out, rtol=1e-4, atol=1e-5)
    answers = one.head(features.float())
    torch.testing.assert_close(
        moved.head((features * 3 + 2).float()), answers, rtol=1e-3, atol=1e-3
    )


def test_a_label_weighs_the_same_whatever_its_number_of_examples():
    """One class four times over changes neither the space nor a ridge's slopes."""
    few = torch.tensor([0, 0, 1, 1, 2, 2])
    features = separated(NARROW, few)
    many = torch.cat([few, few[:2], few[:2], few[:2]])
    repeated = torch.cat([features, features[:2], features[:2], features[:2]])
    one, other = (
        FeatureSpace.of(some, labels, CLASSES)
        for some, labels in ((features, few), (repeated, many))
    )
    assert_exact(one.centre, other.centre)
    heads = [
        ridge(
            "",
            one.inside(some),
            F.one_hot(labels, CLASSES).double(),
            torch.zeros(CLASSES, NARROW, dtype=torch.float64),
            balanced_weights(labels, CLASSES) / len(labels),
            0.1,
        ).head
        for some, labels in ((features, few), (repeated, many))
    ]
    assert_exact(heads[0].weight, heads[1].weight)


def test_labels_with_one_example_each_lean_on_their_prior():
    targets = torch.arange(CLASSES)
    means = separated_means()
    features = means + 0.5 * drawn(CLASSES, WIDE, seed=4)
    form = fit_classes(features, targets, LinearHead(means.float(), torch.zeros(CLASSES)))
    assert form.left_out.argmax(1).tolist() == [0, 1, 2]
    assert torch.isfinite(form.head.weight).all()


def test_a_prior_of_zeros_says_nothing():
    none = LinearHead(torch.zeros(CLASSES, WIDE), torch.zeros(CLASSES))
    form = fit_classes(separated(WIDE), TARGETS, none)
    assert (form.head(separated(WIDE).float()).argmax(1) == TARGETS).all()


def test_what_all_names_have_in_common_says_nothing():
    features, common = separated(NARROW), torch.tensor([0.0, 0.0, 0.0, 3.0])
    heads = [
        fit_classes(features, TARGETS, LinearHead(weight, torch.zeros(CLASSES))).head
        for weight in (torch.eye(CLASSES, NARROW), torch.eye(CLASSES, NARROW) + common)
    ]
    torch.testing.assert_close(heads[0].weight, heads[1].weight)


def test_equal_features_give_finite_numbers():
    features = torch.ones(12, NARROW)
    form = fit_classes(features, TARGETS, prior_of(NARROW))
    assert torch.isfinite(form.left_out).all()
    assert torch.isfinite(form.head(features)).all()


def test_gradients_begin_with_centroids_of_the_usual_scale():
    features, prior = separated(WIDE), prior_of(WIDE)
    head = unfitted_classes(features, TARGETS, prior)
    space = FeatureSpace.of(features, TARGETS, CLASSES)
    inside, rows = space.inside(features), space.rows(prior)
    wanted = centroids("", inside, TARGETS, rows, 4.0).head(inside) * 10
    torch.testing.assert_close(head(features.float()), wanted.float(), rtol=1e-3, atol=1e-3)


def numbers(count, width, noise):
    features = drawn(count, width, seed=5) + 3
    slopes = drawn(width, 2, seed=6)
    return features, features @ slopes + noise * drawn(count, 2, seed=8) + 100


NOTHING = {width: LinearHead(torch.zeros(2, width), torch.zeros(2)) for width in (NARROW, WIDE)}


@pytest.mark.parametrize(("count", "width"), [(30, NARROW), (12, WIDE)])
def test_numbers_leave_out_as_a_fit_without_the_example(count, width):
    features, targets = numbers(count, width, noise=0.5)
    space = FeatureSpace.of(features, torch.zeros(len(features), dtype=torch.int64), 1)
    inside = space.inside(features)
    prior = LinearHead(drawn(2, width, seed=9), drawn(2, seed=10) + 90)
    found = [*number_heads(inside, targets, prior)]
    for position in range(count):
        others, wanted = without(position, inside, targets)
        for each, head in zip(found, number_heads(others, wanted, prior), strict=True):
            torch.testing.assert_close(each.left_out[position], head.head(inside[position]))


def test_the_ridges_that_leave_out_best_have_the_largest_shares():
    drawn_by = (numbers(12, WIDE, noise) for noise in (0.0, 50.0))
    clear, unclear = (fit_numbers(f, t, NOTHING[WIDE]) for f, t in drawn_by)
    small, large = (
        sum(float(name.split()[1]) * share for name, share in each.shares.items())
        for each in (clear, unclear)
    )
    assert small < large
    assert sum(clear.shares.values()) == pytest.approx(1, abs=1e-2)


def test_numbers_are_found_in_their_own_units():
    features, targets = numbers(60, NARROW, noise=0.01)
    found = fit_numbers(features, targets, NOTHING[NARROW]).head(features.float())
    torch.testing.assert_close(found, targets.float(), rtol=0, atol=0.5)
    same = fit_numbers(features, torch.ones(60, 1), LinearHead(torch.zeros(1, 4), torch.zeros(1)))
    assert torch.isfinite(same.head(features.float())).all()


def test_a_trained_prior_is_kept_and_one_of_no_use_is_not():
    features, targets = numbers(60, WIDE, noise=1.0)
    features, few = features.float(), 8
    near = torch.linalg.lstsq(features.double(), targets - 100).solution.T.float()
    trained = LinearHead(near, torch.full((2,), 100.0))
    errors = {
        name: float(
            (fit_numbers(features[:few], targets[:few], prior).head(features) - targets)
            .square()
            .mean()
        )
        for name, prior in {
            "trained": trained,
            "none": NOTHING[WIDE],
            "wrong": LinearHead(-10 * near, torch.zeros(2)),
        }.items()
    }
    assert errors["trained"] < 0.2 * errors["none"]
    assert errors["wrong"] < 1.3 * errors["none"]


def test_features_that_do_not_differ_are_not_enlarged():
    """The same text under both labels says nothing, of other texts neither."""
    row = F.normalize(drawn(1, 6), dim=1).float()
    prior = LinearHead(F.normalize(drawn(2, 6, seed=1), dim=1) * 10, torch.zeros(2))
    form = fit_classes(row.repeat(12, 1), torch.arange(12) % 2, prior)
    assert form.head(row).softmax(1)[0].tolist() == pytest.approx([0.5, 0.5], abs=0.01)
    assert float(form.head.weight.norm(dim=1).max()) < 20  # the prior's have 10
