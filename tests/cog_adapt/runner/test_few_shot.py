"""The use case of both doors: strings in, answers, adapters and reports out."""

import asyncio
import base64
import json
import logging

import pytest

from cog_adapt.runner import few_shot, store
from cog_adapt.runner.config import Recipe
from cog_adapt.runner.errors import InputError, StoreError, WeightsError
from cog_adapt.runner.few_shot import Question, answer, default_adapter, find_adapter, keep, train
from tests.cog_adapt.models import Letters

EXAMPLES = json.dumps({"low": ["aa", "ab", "ac"], "high": ["ya", "yb", "yc"]})
TEXTS = ["ab", "yc", "mm"]
FEW = Recipe(max_steps=3, learning_rate=0.02)


@pytest.fixture
def runner(make_runner):
    return make_runner(Letters())


def ask(runner, question, recipe=FEW, *more):
    return asyncio.run(answer(runner, question, recipe, *more))


def test_labels_alone_are_scored_by_the_base(runner):
    done = ask(runner, Question(TEXTS, ["low", "high"]))
    assert done.predictions == runner.predict(TEXTS, None, ("low", "high"))
    assert (done.before, done.adapter, done.report) == (None, None, None)


def test_examples_adapt_and_their_adapter_can_be_named_later(runner):
    steps = []
    done = ask(runner, Question(TEXTS, examples=EXAMPLES), FEW, steps.append)
    assert done.before == runner.predict(TEXTS, None, ("low", "high"))
    assert done.predictions != done.before
    assert done.report["stored"] is True
    assert done.report["steps"] == 3 == len(steps)
    later = ask(runner, Question(TEXTS, adapter=done.adapter))
    assert later.predictions == done.predictions
    assert later.adapter == done.adapter


def test_examples_may_come_behind_a_url(runner):
    url = "data:text/plain;base64," + base64.b64encode(EXAMPLES.encode()).decode()
    inline = ask(runner, Question(TEXTS, examples=EXAMPLES))
    assert ask(runner, Question(TEXTS, examples=url)).adapter == inline.adapter


def test_an_adapter_may_come_behind_a_url(runner):
    done = ask(runner, Question(TEXTS, examples=EXAMPLES))
    content = runner.store.get(done.adapter).to_bytes()
    url = "data:application/octet-stream;base64," + base64.b64encode(content).decode()
    assert ask(runner, Question(TEXTS, adapter=url)).predictions == done.predictions


def test_an_adapter_and_examples_go_on_training_it(runner):
    first = ask(runner, Question(TEXTS, examples=EXAMPLES))
    again = ask(runner, Question(TEXTS, examples=EXAMPLES, adapter=first.adapter))
    assert again.before == first.predictions
    assert again.adapter != first.adapter


def test_the_processs_own_adapter_answers_where_none_is_named(runner):
    path, _ = train(runner, EXAMPLES, FEW)
    default = default_adapter(str(path))
    done = ask(runner, Question(TEXTS), FEW, None, default)
    assert done.adapter == default.id
    assert done.predictions == runner.predict(TEXTS, default)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (Question([], ["low", "high"]), "no text"),
        (Question(TEXTS), "labels is"),
        (Question(TEXTS, ["low"]), "at least 2 different names"),
        (Question(TEXTS, ["low", "low"]), "at least 2 different names"),
        (Question(TEXTS, ["low", "mid"], EXAMPLES), "has the labels"),
        (Question(TEXTS, examples='{"low": ["aa", "ab"]}'), "one class only"),
        (Question(TEXTS, examples='{"low": ["aa", ""], "high": ["b"]}'), "is empty"),
        (Question(TEXTS, examples="data:nothing"), "is no data URL"),
        (Question(TEXTS, adapter="0" * 16), "is not known here"),
    ],
)
def test_what_does_not_fit_is_refused(runner, question, message):
    with pytest.raises(InputError, match=message):
        ask(runner, question)


def test_a_file_that_is_no_adapter_is_refused():
    with pytest.raises(WeightsError, match="is no safetensors file"):
        find_adapter(None, "data:,hello")
    with pytest.raises(WeightsError, match="cannot be read"):
        default_adapter("/nowhere/a.safetensors")


def test_no_reference_is_no_adapter(runner):
    assert find_adapter(runner, "") is None
    assert default_adapter("") is None
    assert default_adapter(None) is None


def test_a_full_disk_costs_the_adapters_survival_and_not_the_answer(runner, monkeypatch, caplog):
    def full(path, content):
        raise StoreError("full")

    monkeypatch.setattr(store, "write_whole", full)
    with caplog.at_level(logging.WARNING, few_shot.__name__):
        done = ask(runner, Question(TEXTS, examples=EXAMPLES))
    assert done.report["stored"] is False
    assert "is kept in memory only: full" in caplog.text
    assert ask(runner, Question(TEXTS, adapter=done.adapter)).predictions == done.predictions
    assert keep(runner, runner.store.get(done.adapter)) is False


def test_training_writes_an_adapter_and_removes_its_checkpoint(runner):
    recipe = Recipe(max_steps=45, learning_rate=0.02)
    path, report = train(runner, EXAMPLES, recipe)
    assert path.parent == runner.settings.weights_dir / "adapters"
    assert report["steps"] == 45
    assert [p for p in runner.settings.weights_dir.rglob("*") if p.is_file()] == [path]


def test_a_training_that_was_killed_goes_on_when_it_is_asked_for_again(runner):
    class KilledError(Exception):
        pass

    def on_step(step):
        if step.number == 30:
            raise KilledError

    recipe = Recipe(max_steps=45, learning_rate=0.02)
    whole, _ = train(runner, EXAMPLES, recipe)
    with pytest.raises(KilledError):
        train(runner, EXAMPLES, recipe, on_step)
    steps = []
    again, _ = train(runner, EXAMPLES, recipe, steps.append)
    assert again == whole
    assert steps[0].number == 21


def test_another_recipe_or_other_examples_begin_anew(runner):
    class KilledError(Exception):
        pass

    def on_step(step):
        if step.number == 30:
            raise KilledError

    with pytest.raises(KilledError):
        train(runner, EXAMPLES, Recipe(max_steps=45), on_step)
    steps = []
    train(runner, EXAMPLES, Recipe(max_steps=44), steps.append)
    train(runner, EXAMPLES.replace("aa", "ad"), Recipe(max_steps=45), steps.append)
    assert [step.number for step in steps] == [*range(1, 45), *range(1, 46)]
