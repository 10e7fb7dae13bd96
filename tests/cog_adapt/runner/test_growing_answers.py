"""Answers grow together on the model thread: whole or in pieces, within their memory."""

import asyncio
import gc
import threading
from typing import Any

import pytest
import torch

from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.inference.answers import Query
from cog_adapt.runner.model_runner import ModelRunner
from tests.cog_adapt.growing import Length, Spelling
from tests.cog_adapt.waiting import until, wait_until


@pytest.fixture
def make(tmp_path):
    made = []

    def start(**settings):
        given = RunnerSettings(device="cpu", weights_dir=tmp_path, **settings)
        made.append(ModelRunner(Spelling(), given))
        return made[-1]

    yield start
    for runner in made:
        runner.close()


def together(runner, queries):
    """Ask all queries before the model thread answers any, in their order."""
    go = threading.Event()

    def waiting():
        go.wait(30)
        yield

    async def ask():
        held = runner.scheduler.submit_long(waiting())
        asked = [asyncio.create_task(runner.predict_async(query)) for query in queries]
        await until(lambda: len(runner.scheduler) >= len(queries))
        go.set()
        await held.wait_async()
        return await asyncio.gather(*asked)

    return asyncio.run(ask())


def noting(order, name, whole):
    """The same function, whose calls are noted by name."""

    def noted(*given):
        order.append(name(*given))
        return whole(*given)

    return noted


async def pieces(runner, query, facts=None):
    on_end = facts.update if facts is not None else None
    return [piece async for piece in runner.generate_async(query, on_end)]


def test_whole_answers_are_the_same_alone_together_and_streamed(make):
    runner = make()
    words = ["ab", "cde", "f", "ghij"]
    alone = [runner.predict([word])[0] for word in words]
    assert runner.predict(words) == alone
    assert asyncio.run(runner.predict_async(Query(words))) == alone
    facts: dict[str, Any] = {}
    streamed = asyncio.run(pieces(runner, Query(words[:1]), facts))
    assert "".join(streamed) == alone[0]
    assert len(streamed) == facts["letters"] == 6


def test_requests_that_are_under_way_share_their_forwards(make):
    runner = make()
    runner.predict(["warm"])
    rows = runner.model.predictions.modules.ready(Query([])).module.rows
    rows.clear()
    together(runner, [Query([word], options=Length(20)) for word in "abcd"])
    assert rows.count(4) >= 15


def test_a_step_of_an_adaptation_comes_between_two_tokens(make):
    runner = make()
    order: list[str] = []
    task = runner.task
    task.accept = noting(order, lambda *_given: "token", task.accept)
    task.loss = noting(order, lambda *_given: "step", task.loss)

    async def both():
        adapting = asyncio.create_task(
            runner.submit_adaptation(
                [Example("ab", 1.0), Example("cd", 2.0)], Recipe(max_steps=10)
            ).wait_async()
        )
        told = await pieces(runner, Query(["a"], options=Length(400)))
        return told, await adapting

    told, adaptation = asyncio.run(both())
    assert len(told) == 400
    assert adaptation.adapter is not None
    assert runner.health() == ()
    first, last = order.index("step"), len(order) - order[::-1].index("step")
    assert "token" in order[first:last]


def test_who_stops_reading_frees_what_the_answer_kept_within_a_token(make):
    runner = make()

    async def leave():
        stream = runner.generate_async(Query(["a"], options=Length(100_000)))
        await anext(stream)
        await stream.aclose()

    asyncio.run(leave())
    (begun,) = runner.task.begun
    wait_until(lambda: begun.closed)
    made = len(begun.made)
    runner.predict(["b"])
    assert len(begun.made) == made
    assert runner.gauges()["generation_bytes"] == 0


def test_an_answer_too_large_for_the_memory_is_refused(make):
    runner = make(generation_bytes=1000)
    with pytest.raises(InputError, match="answer would need about .*GENERATION_BYTES.*fewer"):
        runner.predict(["a"], options=Length(11))
    assert len(runner.predict(["a"], options=Length(10))[0]) == 10


def test_answers_wait_for_memory_in_their_order_and_all_come(make):
    runner = make(generation_bytes=1000)
    together(runner, [Query([word], options=Length(6)) for word in "abcd"])
    ends = [len(begun.made) for begun in runner.task.begun]
    assert ends == [6] * 4
    assert runner.gauges()["generation_bytes"] == runner.gauges()["generations_waiting"] == 0


def test_an_owner_has_half_of_the_memory_and_others_do_not_wait_behind_it(make):
    runner = make(generation_bytes=2000)
    with pytest.raises(InputError, match="at most .* are free for answers"):
        asyncio.run(runner.predict_async(Query(["a"], options=Length(11), owner="anna")))
    order: list[str] = []
    task = runner.task
    task.accept = noting(order, lambda word, _logits: word.asked, task.accept)
    owners = [("a", "anna"), ("b", "anna"), ("c", "bert")]
    together(runner, [Query([word], options=Length(8), owner=owner) for word, owner in owners])
    second = order.index("b")
    assert order[:second].count("a") == 8  # anna's second begins when her first has ended
    assert order.index("c") < second  # and bert's does not wait behind it


def test_a_thousand_answers_and_cancels_leave_nothing(make):
    runner = make()

    async def some(count):
        for number in range(count):
            stream = runner.generate_async(Query(["ab"], options=Length(5)))
            await anext(stream)
            if number % 2:
                await stream.aclose()
            else:
                assert len([piece async for piece in stream]) == 4

    asyncio.run(some(50))
    runner.task.begun.clear()
    gc.collect()
    before = sum(type(each) is torch.Tensor for each in gc.get_objects())
    asyncio.run(some(950))
    runner.task.begun.clear()
    runner.predict(["a"])
    runner.task.begun.clear()
    gc.collect()
    after = sum(type(each) is torch.Tensor for each in gc.get_objects())
    assert after <= before + 5
    assert runner.gauges()["generation_bytes"] == 0
