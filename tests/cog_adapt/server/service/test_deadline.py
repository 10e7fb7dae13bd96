"""Predictions are cancelled when their time is over."""

import asyncio
from datetime import timedelta
from typing import Any

import msgspec

from cog_adapt.server.protocol import OWNER_KEY
from cog_adapt.server.service.early_ends import cancel_at_deadline
from cog_adapt.server.service.prediction import Prediction, PredictionSpec, now


def run(scene, timeout, *, age=0.0):
    async def story():
        cancelled: list[Any] = []
        created_at = now() - timedelta(seconds=age)
        request = PredictionSpec("p", "predict", b"{}", b"{}", {OWNER_KEY: "ann"}, timeout=timeout)
        request = msgspec.structs.replace(request, created_at=created_at)
        prediction = Prediction(request, history=0)
        cancel_at_deadline(prediction, lambda *who: cancelled.append(who))
        await scene(prediction)
        return cancelled

    return asyncio.run(story())


async def wait(_prediction):
    await asyncio.sleep(0.1)


def test_it_is_cancelled_by_its_id_and_not_before_its_time():
    assert run(wait, 0.05) == [("p", "ann")]
    assert run(wait, 60.0) == []


def test_the_time_before_this_server_counts():
    assert run(wait, 60.0, age=59.99) == [("p", "ann")]
    assert run(wait, 60.0, age=100.0) == [("p", "ann")]


def test_a_clock_that_was_set_back_gives_no_more_time():
    assert run(wait, 0.05, age=-7200.0) == [("p", "ann")]


def test_what_has_ended_is_not_cancelled():
    async def end(prediction):
        prediction.close()
        await asyncio.sleep(0.1)

    assert run(end, 0.05) == []
