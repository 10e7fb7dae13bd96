"""What `auto` begins with, how many steps it takes at what rate, and where it cannot begin."""

import dataclasses
import math
import time

import pytest
import torch

from cog_adapt.runner.auto.start import given_of, is_too_much
from cog_adapt.runner.config import AUTO, Recipe
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.heads.decision import BASE, CLOSED, unknown
from cog_adapt.runner.heads.objective import Labels, Numbers
from cog_adapt.runner.inference.label_tensors import finished
from gradient_check.tests.models import LABELS, WIDTH
from tests.cog_adapt.models import examples as examples_of
from tests.cog_adapt.runner.featured import Featured, Measured, given, loaded, separated

NOW = time.monotonic()


@pytest.fixture(scope="module")
def model():
    return loaded(Featured())


def begun(model, count=12, began=math.inf, **recipe):
    return given(model, separated(count), Recipe(AUTO, **recipe), began)


def test_the_head_its_prior_and_the_targets_are_found(model):
    found = begun(model)
    assert found.names.layer == "head"
    assert isinstance(found.objective, Labels)
    assert found.objective.targets.tolist() == [0, 1, 2] * 4
    assert torch.equal(
        found.objective.prior.weight, found.start.trained.tensors["head.weight"].cpu()
    )
    assert found.features.shape == (12, WIDTH)


def test_numbers_are_rows():
    found = given(loaded(Measured()), examples_of("regression", 9), Recipe(AUTO), NOW)
    assert isinstance(found.objective, Numbers)
    assert found.objective.targets.shape == (9, 1)
    assert found.names.layer == "out"


@pytest.mark.parametrize(
    ("count", "recipe", "steps"),
    [
        (3, {}, 40),
        (6, {}, 24),
        (29, {}, 24),
        (30, {}, 20),
        (60, {}, 20),
        (60, {"batch_size": 8}, 20),
        (240, {}, 30),
        (240, {"max_steps": 25}, 25),
        (6, {"max_steps": 3}, 1),
        (3, {"max_steps": 3}, 3),
    ],
)
def test_each_example_is_seen_often_and_no_more_steps_are_taken_than_asked(
    model, count, recipe, steps
):
    assert begun(model, count, **recipe).steps == steps


@pytest.mark.parametrize(("count", "times"), [(29, 1), (30, 2)])
def test_near_the_goal_the_rate_is_twice_the_usual_one_and_the_callers_comes_first(
    model, count, times
):
    assert begun(model, count, learning_rate=0.03).rate == 0.03
    found = begun(model, count)
    assert found.rate == times * found.start.training.learning_rate


def test_few_examples_begin_with_all_that_the_base_knows(model):
    found, chosen = begun(model), torch.arange(12)
    start = found.beginning(chosen, found.objective.fit(found.features, chosen), 7)
    for name, tensor in found.start.trained.tensors.items():
        assert torch.equal(start.trained.tensors[name], tensor), name


def test_what_is_left_of_the_budget_falls_to_almost_nothing(model):
    assert begun(model).seconds_left is None
    assert not begun(model).is_over
    just_begun = begun(model, began=time.monotonic(), budget_seconds=1000.0)
    assert 900 < just_begun.seconds_left <= 1000
    assert not just_begun.is_over
    long_ago = begun(model, began=time.monotonic() - 2000, budget_seconds=1000.0)
    assert 0 < long_ago.seconds_left <= 0.001
    assert long_ago.is_over


def test_the_folds_are_those_of_the_seed(model):
    assert [len(others) for _, others in begun(model).folds] == [6, 6]
    one, again, other = (begun(model, seed=seed).folds[0][0].tolist() for seed in (1, 1, 2))
    assert one == again
    assert one != other
    assert begun(model, count=6).folds == []


def test_gradients_begin_with_the_head_of_the_chosen_examples(model):
    found, chosen = begun(model, hold_out=0.0, began=0.0, budget_seconds=5.0), torch.arange(6)
    form = found.objective.fit(found.features, chosen)
    start = found.beginning(chosen, form, 7)
    assert start.data.examples == found.start.data.examples[:6]
    assert start.data.weights == found.objective.weights(form, chosen).tolist()
    head = found.objective.begin(found.features, chosen, form)
    assert torch.equal(start.trained.tensors["head.weight"].cpu(), head.weight)
    assert start.trained.tensors.keys() == found.start.trained.tensors.keys()
    assert (start.training.recipe.max_steps, start.training.learning_rate) == (7, found.rate)
    assert start.training.recipe.budget_seconds == 0.001  # it began long ago
    assert torch.equal(
        found.start.trained.tensors["head.weight"].cpu(), found.objective.prior.weight
    )


def test_a_head_without_a_step_is_reported_as_a_head(model):
    found = begun(model, began=NOW, seed=5)
    tensors = {"head.weight": torch.zeros(3, WIDTH), "head.bias": torch.zeros(3)}
    outcome = found.outcome(tensors, unknown("accuracy"), "decided")
    report = outcome.report
    assert outcome.tensors is tensors
    assert (report.method, report.trained_parameters, report.seed) == ("head", 27, 5)
    assert (report.steps, report.stop_reason, report.examples) == ((), "decided", 12)
    assert report.seconds > 0


@pytest.mark.parametrize(("tensors", "chosen"), [(None, BASE), ({"a": torch.ones(1)}, CLOSED)])
def test_where_the_time_is_over_it_is_said(model, tensors, chosen):
    report = begun(model, began=NOW).outcome(tensors, unknown("accuracy"), "budget_seconds").report
    assert report.decision.chosen == chosen
    assert report.decision.why == "the time was over before any step"
    assert report.method == ("head" if tensors else "base")


def test_hold_out_is_refused_in_words(model):
    with pytest.raises(InputError, match=r"hold_out is 0.2, and method 'auto' .* Leave hold_out"):
        begun(model, hold_out=0.2)


def test_without_features_there_is_nothing_to_begin_with(model):
    start = finished(model.starting(separated(12), Recipe(AUTO, hold_out=0.2)))
    assert given_of(start, model.predictions.phase, None, NOW) is None


def test_without_one_matrix_as_wide_as_the_features_there_is_no_head(model):
    start = finished(model.starting(separated(12), Recipe(AUTO)))
    assert given_of(start, model.predictions.phase, torch.zeros(12, WIDTH + 1), NOW) is None


def test_a_head_with_other_rows_than_labels_is_none(model):
    found = begun(model)
    fewer = dataclasses.replace(
        found.start, data=dataclasses.replace(found.start.data, labels=[*LABELS, "none"])
    )
    assert given_of(fewer, found.phase, found.features, NOW) is None


def test_one_number_or_several_for_one_output_are_no_regression():
    model = loaded(Measured())
    rows = [[float(i)] * WIDTH for i in range(4)]
    assert given(model, [Example(rows[0], 1.0)], Recipe(AUTO), NOW) is None
    pairs = [Example(row, [1.0, 2.0]) for row in rows]
    assert given(model, pairs, Recipe(AUTO), NOW) is None


def test_a_head_that_takes_too_long_to_fit_is_not_fitted():
    """A fit is one tick, in which nobody else is answered."""
    found = begun(loaded(Featured()))
    one = found.start.data.examples[0]
    for count, labels in ((10_001, ("low", "high")), (500, tuple(map(str, range(401))))):
        many = dataclasses.replace(
            found.start,
            data=dataclasses.replace(found.start.data, examples=[one] * count, labels=labels),
        )
        assert is_too_much(many)
    assert not is_too_much(found.start)
    wide = torch.zeros(1_600, 1_600)
    assert given_of(found.start, found.phase, wide, NOW) is None
