"""Which webhooks are announced while a prediction runs, and how often."""

import asyncio
from typing import Any

import pytest

from cog_adapt.server.protocol import Finished
from cog_adapt.server.service.announcer import Announcer
from cog_adapt.server.service.prediction import Prediction, PredictionSpec
from tests.cog_adapt.waiting import assert_stays_so, until

URL = "http://receiver.test/"


class Sender:
    """Keeps what is announced, and stands for the observer too."""

    def __init__(self):
        self.announcements = []

    def announce(self, announcement):
        self.announcements.append(announcement)

    def headers(self, prediction):
        return {"traceparent": f"of {prediction.id}"}

    @property
    def events(self):
        return [each.event for each in self.announcements]


def run(scene, interval=0.0, **request):
    async def story():
        sender: Any = Sender()
        announcer = Announcer(sender, sender, interval)
        request.setdefault("webhook", URL)
        prediction = Prediction(PredictionSpec("p", "train", b"{}", b"{}", **request), 10)
        announcer.follow(prediction)
        await scene(announcer, prediction, sender)
        return sender

    return asyncio.run(asyncio.wait_for(story(), 10))


def test_logs_within_the_interval_are_sent_once_when_it_is_over():
    async def scene(announcer, prediction, sender):
        for _ in range(3):
            announcer.announce_logs(prediction)
        assert len(sender.events) == 1
        await until(lambda: len(sender.events) == 2)
        await assert_stays_so(lambda: len(sender.events) == 2, 0.1)
        for _ in range(3):
            announcer.announce_logs(prediction)
        await until(lambda: len(sender.events) == 4)
        await assert_stays_so(lambda: len(sender.events) == 4, 0.1)

    assert run(scene, 0.05).events == ["logs"] * 4  # two for each three


@pytest.mark.parametrize("is_forgotten", [True, False])
def test_after_its_end_nothing_is_sent(is_forgotten):
    async def scene(announcer, prediction, sender):
        announcer.announce_logs(prediction)
        announcer.announce_logs(prediction)
        if is_forgotten:
            announcer.forget(prediction)
            announcer.announce_logs(prediction)
        else:
            prediction.finish(Finished("p", "succeeded"))
        await assert_stays_so(lambda: sender.events == ["logs"], 0.1)

    assert run(scene, 0.03).events == ["logs"]


def test_each_small_output_is_sent_and_of_large_ones_one_an_interval():
    async def scene(announcer, prediction, sender):
        for size in (10, 10, 2**16):
            prediction.answer_bytes += size
            announcer.announce_output(prediction)
        for _ in range(1000):
            announcer.announce_output(prediction)
        announcer.forget(prediction)
        announcer.announce_output(prediction)

    assert run(scene, 60.0).events == ["output", "output"]
    assert len(run(scene, 0.0).events) > 1000
