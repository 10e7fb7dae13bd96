"""Contestants on the packaged weights: the closed forms are what they are said to be."""

import pytest
import torch

from bench.data import Split
from bench.quality.contestants import ClosedForms, contestants, of_peft, of_runner, reasons
from bench.rivals import Base
from bench.sets.rows import Row, draw
from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.model_runner import ModelRunner
from task import TextClassification

STEPS = Recipe(max_steps=2)


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    settings = RunnerSettings(device="cpu", weights_dir=tmp_path_factory.mktemp("weights"))
    with ModelRunner(TextClassification(), settings) as shared:
        yield shared


@pytest.fixture(scope="module")
def base(runner):
    return Base.load(TextClassification(), runner.precision)


@pytest.fixture(scope="module")
def split():
    whole = draw(Row("tickets", 2), 0)
    return Split(whole.train, whole.test[::30])


def test_zero_shot_answers_as_the_runner_does_without_an_adapter(base, runner, split):
    outcome = ClosedForms(base).zero_shot(split, STEPS)
    answers = runner.predict(split.texts, None, outcome.labels)
    rows = [[answer["scores"][label] for label in outcome.labels] for answer in answers]
    torch.testing.assert_close(outcome.probabilities, torch.tensor(rows), atol=1e-4, rtol=0)


def test_a_centroid_lies_closer_to_its_own_examples_than_the_name(base, split):
    """With the examples as test texts, seven tenths of the centroid must show."""
    seen = Split(split.train, split.train)
    closed = ClosedForms(base)
    found = {}
    for way in (closed.zero_shot, closed.centroid):
        outcome = way(seen, STEPS)
        best = outcome.probabilities.argmax(-1).tolist()
        found[way] = seen.accuracy([outcome.labels[row] for row in best])
    assert found[closed.centroid] == 1 > found[closed.zero_shot]


def test_all_answer_with_probabilities_of_the_same_labels(base, runner, split):
    closed = ClosedForms(base)
    ways = (closed.zero_shot, closed.centroid, closed.logistic)
    for way in (*ways, of_runner(runner, "lora"), of_peft(base, 2e-3)):
        outcome = way(split, STEPS)
        assert outcome.probabilities.shape == (len(split.test), len(outcome.labels))
        assert set(outcome.labels) == {example.target for example in split.train}
        sums = outcome.probabilities.double().sum(-1)
        torch.testing.assert_close(sums, torch.ones_like(sums), atol=1e-5, rtol=0)
        assert outcome.seconds > 0


def test_test_texts_are_embedded_once(base, split, monkeypatch):
    closed = ClosedForms(base)
    closed.zero_shot(split, STEPS)
    embedded, encode = [], base.task.encode

    def recorded(texts):
        embedded.extend(texts)
        return encode(texts)

    monkeypatch.setattr(base.task, "encode", recorded)
    closed.zero_shot(split, STEPS)
    assert not set(embedded) & set(split.texts)


def test_who_cannot_run_is_named_with_a_reason(base, runner):
    found = contestants(runner, base)
    assert {"zero-shot", "centroid", "logistic", "lora", "peft"} <= set(found)
    assert set(reasons(found)) | set(found) >= {"auto", "setfit"}
    assert not set(reasons(found)) & set(found)
