"""Examples are answered by models that have not seen them, and the middle lies half-way."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from cog_adapt.runner.adaptation.run import adapt
from cog_adapt.runner.auto import cross_answers as module
from cog_adapt.runner.auto.cross_answers import CrossAnswers, candidate_of, cross_answers, middle
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.heads.calibration import NO_WRONG_LABELS, Calibration, WrongLabelShare
from cog_adapt.runner.heads.decision import (
    AVERAGE,
    BASE,
    CLOSED,
    GRADIENTS,
    MIDDLE,
    CandidateScore,
)
from cog_adapt.runner.inference.label_tensors import finished
from cog_adapt.runner.modules.loaded_base import moved
from gradient_check.phases.lora import SCALE
from gradient_check.phases.replicas import serving_replica
from gradient_check.tests.models import LABELS
from tests.cog_adapt.devices import DEVICE
from tests.cog_adapt.runner.featured import FEW_STEPS, Featured, drained, given, loaded, separated


@pytest.fixture(scope="module")
def model():
    return loaded(Featured())


@pytest.fixture(scope="module")
def found(model):
    return given(model, separated(30), FEW_STEPS, 0.0)


@pytest.fixture(scope="module")
def answered(found):
    return finished(cross_answers(found, NO_WRONG_LABELS))


def test_each_example_is_answered_once_by_each_candidate(found, answered):
    assert list(answered.outputs) == [BASE, CLOSED, GRADIENTS, MIDDLE]
    assert sorted(answered.chosen.tolist()) == list(range(30))
    assert {tuple(outputs.shape) for outputs in answered.outputs.values()} == {(30, 3)}


def test_the_base_and_the_closed_form_answer_from_the_features(found, answered):
    prior = found.objective.prior(found.features[answered.chosen])
    torch.testing.assert_close(answered.outputs[BASE], prior)
    train, others = found.folds[0]
    form = found.objective.fit(found.features, train)
    outputs = answered.outputs[CLOSED][: len(others)]
    torch.testing.assert_close(outputs, form.head(found.features[others]))


def test_gradients_answer_what_their_fold_did_not_train_on(found, answered):
    """Half of the steps, from the fold's own head, on the fold's own examples."""
    train, others = found.folds[1]
    run = found.beginning(train, found.objective.fit(found.features, train), 3)
    _, (tensors, _) = drained(adapt(run))
    inputs = [found.start.data.examples[i].input for i in others.tolist()]
    rows = torch.tensor(inputs, device=DEVICE)
    for name, chosen in ((GRADIENTS, tensors), (MIDDLE, middle(run.trained.tensors, tensors))):
        expected = serving_replica(found.start.trained.template, moved(chosen, rows.device))(
            rows
        ).cpu()
        torch.testing.assert_close(answered.outputs[name][-len(others) :], expected)


def test_few_examples_are_answered_by_the_average_alone(model):
    """Half of the closed form's head and half of the trained one, on features that steps moved."""
    few = given(model, separated(12), FEW_STEPS, 0.0)
    answered = finished(cross_answers(few, NO_WRONG_LABELS))
    assert list(answered.outputs) == [BASE, CLOSED, AVERAGE]
    train, others = few.folds[1]
    form = few.objective.fit(few.features, train)
    _, (trained, _) = drained(adapt(few.beginning(train, form, 1)))
    tensors = moved(trained, torch.device(DEVICE))
    replica: Any = serving_replica(few.start.trained.template, tensors)
    rows = torch.tensor([few.start.data.examples[i].input for i in others.tolist()], device=DEVICE)
    closed = form.head(replica.trunk(rows).detach().float().cpu())
    own = replica(rows).detach().float().cpu()
    expected = 0.5 * (closed + own) / 2
    torch.testing.assert_close(answered.outputs[AVERAGE][-len(others) :], expected)


def test_what_an_example_says_does_not_reach_its_own_answer(model, found, answered):
    """The target of one example changes, and the answers to its fold stay."""
    others = found.folds[0][1]
    position = int(others[-1])
    changed = separated(30)
    label = LABELS[(LABELS.index(changed[position].target) + 1) % len(LABELS)]
    changed[position] = Example(changed[position].input, label)
    again = given(model, changed, FEW_STEPS, 0.0)
    vars(again)["folds"] = found.folds
    other = finished(cross_answers(again, NO_WRONG_LABELS))
    for name in answered.outputs:
        one, two = (each.outputs[name][: len(others)] for each in (answered, other))
        assert torch.equal(one, two), name
    assert not torch.equal(answered.outputs[GRADIENTS], other.outputs[GRADIENTS])


def test_the_scheduler_gets_its_turns_and_no_step_is_shown(found):
    ticks = list(cross_answers(found, NO_WRONG_LABELS))
    assert len(ticks) >= 2 * 3
    assert set(ticks) == {None}


def test_the_base_is_judged_as_it_is_and_others_calibrated(found):
    outputs = torch.eye(3).repeat(10, 1) * 30
    outputs[0] = torch.tensor([0.0, 30.0, 0.0])
    answered = CrossAnswers(torch.arange(30), {BASE: outputs, CLOSED: outputs})
    calibration = answered.calibration(found, CLOSED)
    assert isinstance(calibration, Calibration)
    plain, calibrated = (
        candidate_of(found, each, torch.arange(30), NO_WRONG_LABELS)
        for each in (outputs, calibration(outputs))
    )
    assert answered.candidates(found) == {BASE: plain, CLOSED: calibrated}
    assert calibrated.loss != plain.loss


def test_a_candidate_counts_labels_the_same(model):
    uneven = [*separated(12), *(each for each in separated(30) if each.target == "low")]
    found = given(model, uneven, FEW_STEPS, 0.0)
    everything = torch.arange(len(uneven))
    always_low = torch.tensor([[5.0, 0.0, 0.0]]).expand(len(uneven), 3)
    candidate = candidate_of(found, always_low, everything, NO_WRONG_LABELS)
    assert isinstance(candidate, CandidateScore)
    assert candidate.score == pytest.approx(1 / 3)


def test_a_candidate_that_is_always_right_may_err_too(found):
    everything = torch.arange(len(found.features))
    right = torch.nn.functional.one_hot(found.objective.targets, 3) * 9.0
    candidate = candidate_of(found, right, everything, NO_WRONG_LABELS)
    assert candidate.score == pytest.approx(1)
    assert candidate.error > 0.04


def test_an_accuracy_is_a_share_where_labels_may_be_wrong_too(found):
    everything = torch.arange(len(found.features))
    targets = found.objective.targets
    wrong_share = WrongLabelShare(
        NO_WRONG_LABELS.likely.flip(0)
    )  # as large a share of wrong labels as can be
    assert wrong_share.wrong > 0.2
    for shift, score in ((0, 1.0), (1, 0.0)):
        outputs = torch.nn.functional.one_hot((targets + shift) % 3, 3) * 9.0
        assert candidate_of(found, outputs, everything, wrong_share).score == score


def test_the_middle_halves_b_and_heads_and_keeps_a():
    begin = {
        "fc.lora_a": torch.ones(2, 4),
        "fc.lora_b": torch.zeros(4, 2),
        "h.weight": torch.ones(3, 4),
    }
    end = {name: torch.full_like(tensor, 3.0) for name, tensor in begin.items()}
    found = middle(begin, end)
    assert torch.equal(found["fc.lora_a"], end["fc.lora_a"])
    assert set(found["fc.lora_b"].flatten().tolist()) == {1.5}
    assert set(found["h.weight"].flatten().tolist()) == {2.0}
    assert found.keys() == end.keys()


def test_the_middle_changes_a_layer_half_as_much():
    """B begins with zeros, so the pair's product is halved."""
    a, b = torch.randn(2, 4), torch.randn(4, 2)
    found = middle({"l.lora_a": a * 0.9, "l.lora_b": b * 0}, {"l.lora_a": a, "l.lora_b": b})
    torch.testing.assert_close(found["l.lora_b"] @ found["l.lora_a"] * SCALE, b @ a * SCALE / 2)


def test_a_fold_takes_half_of_the_steps_and_one_at_least(model, monkeypatch):
    taken = []

    def noted(run):
        taken.append((run.training.recipe.max_steps, len(run.data.examples)))
        return adapt(run)

    monkeypatch.setattr(module, "adapt_within_bounds", noted)
    finished(cross_answers(given(model, separated(30), FEW_STEPS, 0.0), NO_WRONG_LABELS))
    finished(
        cross_answers(
            given(model, separated(30), replace(FEW_STEPS, max_steps=1), 0.0), NO_WRONG_LABELS
        )
    )
    assert taken == [(3, 15), (3, 15), (1, 15), (1, 15)]
    taken.clear()
    few = given(model, separated(12), replace(FEW_STEPS, max_steps=20), 0.0)
    finished(cross_answers(few, NO_WRONG_LABELS))
    assert taken == [(6, 6), (6, 6)]  # of .6 of all


@pytest.mark.parametrize(("likely", "said"), [((0.0, 1.0), 0.3), ((0.5, 0.5), 0.0)])
def test_all_are_judged_by_the_same_share_of_wrong_labels(found, answered, likely, said):
    believed = torch.zeros(7, dtype=torch.float64)
    believed[0], believed[5] = likely
    wrong_share = WrongLabelShare(believed)
    assert wrong_share.wrong == pytest.approx(0.3 * likely[1])
    noisy = replace(answered, wrong_share=wrong_share)
    calibrations = {n: noisy.calibration(found, n) for n in answered.outputs if n != BASE}
    for name, judged in noisy.candidates(found).items():
        outputs = answered.outputs[name]
        outputs = calibrations[name](outputs) if name != BASE else outputs
        plain = candidate_of(found, outputs, answered.chosen, NO_WRONG_LABELS)
        assert judged.wrong == pytest.approx(said)  # nothing is said while it is open
        expected = (plain.score - wrong_share.wrong / 3) / (1 - wrong_share.wrong)
        assert judged.score == pytest.approx(min(max(expected, 0.0), 1.0))
        losses = found.objective.losses(outputs, answered.chosen, wrong_share.wrong)
        assert judged.loss == pytest.approx(float(losses.mean()))  # as many of each label
