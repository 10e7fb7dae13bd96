"""The language model: it learns pairs, and answers with and without them."""

import asyncio
from pathlib import Path

import pytest

from cog_adapt import ModelRunner, Query, Recipe, RunnerSettings, TextOptions, read_examples
from examples.lm.task import Chat

ROWS = Path(__file__).parents[1] / "examples" / "rows.jsonl"
ASKED = "The dinner is on Sunday."


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    settings = RunnerSettings(device="cpu", weights_dir=tmp_path_factory.mktemp("weights"))
    with ModelRunner(Chat(), settings) as runner:
        yield runner


def test_gradients_reach_every_parameter(runner):
    report = runner.self_test()
    assert report.passed, str(report)


def test_it_answers_rightly_in_the_form_of_the_rows_and_the_base_stays(runner):
    options = TextOptions(max_tokens=6)
    (before,) = runner.predict([ASKED], options=options)
    examples = read_examples(ROWS, runner.task.example).examples
    recipe = Recipe(max_steps=10, batch_size=8)
    learned = runner.adapt(examples, recipe)
    losses = [step.loss for step in learned.report.steps]
    assert losses[-1] < losses[0]
    (after,) = runner.predict([ASKED], learned.adapter, options=options)
    assert after == "dinner | Sunday" != before
    assert runner.predict([ASKED], options=options) == [before]


def test_a_stream_is_the_answer_in_pieces(runner):
    options = TextOptions(max_tokens=5)

    async def pieces():
        return [piece async for piece in runner.generate_async(Query([ASKED], options=options))]

    assert "".join(asyncio.run(pieces())) == runner.predict([ASKED], options=options)[0]
