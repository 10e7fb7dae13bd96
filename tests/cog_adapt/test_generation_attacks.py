"""What hostile or careless callers send to a language model: nobody else notices."""

import asyncio
from typing import Any

import pytest

from cog_adapt.lm import causal_lm
from cog_adapt.lm.causal_lm import CausalLM
from cog_adapt.lm.sampling import TextOptions
from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.inference.answers import Query
from cog_adapt.runner.model_runner import ModelRunner
from tests.cog_adapt.lm.tiny import write_model
from tests.cog_adapt.waiting import wait_until

PAIRS = [Example("what is the best team", "fox team"), Example("the parcel never came", "dog")]
SHORT = TextOptions(max_tokens=3)


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    folder = write_model(tmp_path_factory.mktemp("model"), scale=8.0)
    settings = RunnerSettings(device="cpu", weights_dir=tmp_path_factory.mktemp("weights"))
    with ModelRunner(CausalLM(folder), settings) as made:
        yield made


@pytest.fixture(autouse=True)
def nothing_is_left(runner):
    yield
    runner.predict(["x"], options=SHORT)  # a tick, in which those who left are closed
    assert runner.gauges()["generation_bytes"] == runner.gauges()["generations_waiting"] == 0
    assert runner.health() == ()


def test_a_thousand_short_answers_at_once_are_those_of_each_alone(runner):
    adapters = [
        runner.adapt(PAIRS, Recipe(max_steps=2, learning_rate=0.02, seed=seed)).adapter
        for seed in range(2)
    ]
    kinds = [(text, adapter) for text in ("x", "the fox") for adapter in (None, *adapters)]
    alone = [runner.predict([text], adapter, options=SHORT) for text, adapter in kinds]
    asked = [number % len(kinds) for number in range(1000)]

    async def all_at_once():
        queries = [Query([kinds[n][0]], kinds[n][1], options=SHORT) for n in asked]
        return await asyncio.gather(*map(runner.predict_async, queries))

    assert asyncio.run(all_at_once()) == [alone[n] for n in asked]


def test_a_cancel_in_the_middle_of_a_prompt_frees_its_cache_and_others_go_on(runner, monkeypatch):
    monkeypatch.setattr(causal_lm, "prompt_tokens", lambda device: 4)
    expected = runner.predict(["x"], options=TextOptions(max_tokens=20))
    begun: list[Any] = []
    left: list[Any] = []
    begin = CausalLM.begin

    def noted(self, input, options):
        begun.append(begin(self, input, options))
        if input == long.inputs[0]:
            left.append(begun[-1])
        return begun[-1]

    monkeypatch.setattr(CausalLM, "begin", noted)
    long = Query(["the quick brown fox " * 60], options=TextOptions(max_tokens=100))

    async def leave():
        other = asyncio.create_task(
            runner.predict_async(Query(["x"], options=TextOptions(max_tokens=20)))
        )
        reading = asyncio.create_task(runner.predict_async(long))
        while not any(each.cache.length > 4 and not each.joins for each in begun):
            await asyncio.sleep(0)
        reading.cancel()
        return await other

    assert asyncio.run(leave()) == expected
    wait_until(lambda: left[0].cache.nbytes == 0)
    assert left[0].cache.length < runner.task.encode(long.inputs)["input_ids"].shape[1]


def test_an_adapter_that_is_deleted_while_it_answers_ends_its_answer(runner):
    adapter: Any = runner.adapt(PAIRS, Recipe(max_steps=2, learning_rate=0.02)).adapter
    options = TextOptions(max_tokens=40)
    expected = runner.predict(["x"], adapter, options=options)
    runner.store.put(adapter)
    served = runner.model.predictions.modules.served

    async def told():
        stream = runner.generate_async(Query(["x"], adapter, options=options))
        other = asyncio.create_task(runner.predict_async(Query(["x"], options=options)))
        pieces = [await anext(stream)]
        runner.store.remove(adapter.id, "")
        served.forget(adapter.id)
        pieces += [piece async for piece in stream]
        await other
        return "".join(pieces)

    assert asyncio.run(told()) == expected[0]


@pytest.mark.parametrize(
    ("asked", "options", "words"),
    [
        ("", SHORT, "is no text"),
        ([], SHORT, "is no text and no list of messages"),
        ({"text": 3}, SHORT, "is no text"),
        ("the quick fox " * 10**5, SHORT, "characters; the limit is 32,768"),
        ("the quick fox " * 400, SHORT, "tokens; at most 512 fit"),
        ("x", TextOptions(max_tokens=10**9), "reads 512 together"),
    ],
)
def test_what_cannot_be_answered_is_refused_in_words_while_others_are_answered(
    runner, asked, options, words
):
    expected = runner.predict(["x"], options=TextOptions(max_tokens=20))

    async def both():
        good = asyncio.create_task(
            runner.predict_async(Query(["x"], options=TextOptions(max_tokens=20)))
        )
        with pytest.raises(InputError, match=words):
            await runner.predict_async(Query([asked], options=options))
        return await good

    assert asyncio.run(both()) == expected
