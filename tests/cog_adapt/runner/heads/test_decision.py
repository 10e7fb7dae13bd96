"""The least loss is chosen, and said in words with how good it is expected to be."""

import dataclasses
import json

import pytest
import torch

from cog_adapt.runner.heads.decision import (
    AVERAGE,
    BASE,
    CLOSED,
    GRADIENTS,
    MIDDLE,
    CandidateScore,
    decide,
    of_few,
    unknown,
)

BEFORE, AFTER = CandidateScore(0.9, 0.67, 0.04), CandidateScore(0.5, 0.84, 0.03)
WORSE = CandidateScore(0.6, 0.9, 0.01)


@pytest.mark.parametrize("best", [BASE, CLOSED, GRADIENTS, MIDDLE])
def test_the_least_loss_is_chosen_whatever_the_score(best):
    candidates = dict.fromkeys((BASE, CLOSED, GRADIENTS, MIDDLE), WORSE) | {best: AFTER}
    decision = decide(candidates, "accuracy")
    assert decision.chosen == best
    assert decision.after is AFTER
    assert decision.before is candidates[BASE]
    assert decision.why
    assert decision.candidates == candidates


def test_where_nothing_has_less_loss_the_base_answers():
    decision = decide({BASE: AFTER, CLOSED: AFTER, GRADIENTS: AFTER}, "accuracy")
    assert decision.chosen == BASE
    assert decision.why == "nothing that was learned beats the base"


def test_few_examples_choose_the_middle_rather_than_gradients_alone():
    candidates = {
        BASE: WORSE,
        CLOSED: BEFORE,
        GRADIENTS: AFTER,
        MIDDLE: CandidateScore(0.55, 0.8, 0.1),
    }
    assert decide(candidates, "accuracy", count=39.0).chosen == MIDDLE
    assert decide(candidates, "accuracy", count=40.0).chosen == GRADIENTS
    without = {name: each for name, each in candidates.items() if name != MIDDLE}
    assert decide(without, "accuracy", count=39.0).chosen == GRADIENTS


def test_where_an_average_answers_nothing_is_chosen():
    candidates = {BASE: AFTER, CLOSED: AFTER, AVERAGE: WORSE}
    decision = decide(candidates, "accuracy", count=8.0)
    assert decision.chosen == AVERAGE
    assert decision.after is WORSE
    assert "do not show which is better" in decision.why


def test_few_examples_do_not_choose_the_base_before_any_step():
    first = decide({BASE: AFTER, CLOSED: WORSE}, "accuracy")
    assert of_few(first).chosen == CLOSED
    assert of_few(first).after is WORSE
    closed = decide({BASE: WORSE, CLOSED: AFTER}, "accuracy")
    assert of_few(closed) is closed


def test_labels_that_look_wrong_are_said():
    after = dataclasses.replace(AFTER, wrong=0.124)
    sentence = decide({BASE: BEFORE, CLOSED: after}, "accuracy").sentence
    assert sentence.endswith("was .67; about 12% of the labels look wrong")


def test_each_choice_has_a_reason_of_its_own():
    names = (BASE, CLOSED, GRADIENTS, MIDDLE)
    whys = {decide({BASE: WORSE, name: AFTER}, "accuracy").why for name in names}
    assert len(whys) == 4


def test_the_estimate_is_a_sentence():
    decision = decide({BASE: BEFORE, CLOSED: AFTER}, "accuracy")
    assert decision.sentence == "expected accuracy about .84 ± .03, was .67"


@pytest.mark.parametrize(
    ("score", "words"),
    [(1.0, "1.00"), (0.0, ".00"), (-0.25, "-.25"), (-10.25, "-10.25"), (-100.5, "-100.50")],
)
def test_a_score_is_said_as_it_is(score, words):
    before = dataclasses.replace(BEFORE, score=score)
    sentence = decide({BASE: before, CLOSED: AFTER}, "R²").sentence
    assert sentence == f"expected R² about .84 ± .03, was {words}"


def test_where_nothing_is_known_it_says_so():
    decision = unknown("accuracy")
    assert decision.chosen == GRADIENTS
    assert decision.sentence == "no estimate: there are too few examples to leave some out"
    decision = dataclasses.replace(decision, no_estimate="there is no head")
    assert decision.sentence == "no estimate: there is no head"
    assert decision.to_json()["before"] is decision.to_json()["after"] is None


def test_a_decision_is_plain_values():
    whole = decide({BASE: BEFORE, CLOSED: AFTER}, "accuracy").to_json()
    assert json.loads(json.dumps(whole)) == whole
    assert whole["chosen"] == CLOSED
    assert whole["expected"] == "expected accuracy about .84 ± .03, was .67"
    assert whole["before"] == {"loss": 0.9, "score": 0.67, "error": 0.04, "wrong": 0.0}
    assert whole["after"] == whole["candidates"][CLOSED]


def test_a_candidate_is_averaged_by_weights():
    losses, scores = torch.tensor([1.0, 2.0, 6.0]), torch.tensor([1.0, 1.0, 0.0])
    candidate = CandidateScore.of(losses, scores, torch.tensor([1.0, 1.0, 2.0]))
    assert candidate.loss == pytest.approx(3.75)
    assert candidate.score == pytest.approx(0.5)


def test_the_error_is_the_standard_error_of_the_mean():
    scores = torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0], dtype=torch.float64)
    candidate = CandidateScore.of(scores, scores, torch.ones(5, dtype=torch.float64))
    assert candidate.error == pytest.approx(float(scores.std()) / 5**0.5)
    heavy = CandidateScore.of(scores, scores, torch.tensor([9.0, 1.0, 1.0, 1.0, 1.0]))
    assert heavy.error > candidate.error


def test_answers_that_are_all_right_have_an_error_too():
    ones = torch.ones(16, dtype=torch.float64)
    assert CandidateScore.of(ones, ones, ones).error == 0
    few = CandidateScore.of(ones, ones, ones, is_share=True)
    assert few.score == 1
    assert few.error == pytest.approx((0.9 * 0.1 * 20 / 19 / 16) ** 0.5)  # of 18 right of 20
    many = torch.ones(400, dtype=torch.float64)
    assert CandidateScore.of(many, many, many, is_share=True).error < 0.005


def test_added_answers_hardly_change_an_error_in_the_middle():
    scores = torch.tensor([1.0, 0.0] * 20, dtype=torch.float64)
    weights = torch.ones(40, dtype=torch.float64)
    plain = CandidateScore.of(scores, scores, weights).error
    assert CandidateScore.of(scores, scores, weights, is_share=True).error == pytest.approx(
        plain, rel=0.01
    )
