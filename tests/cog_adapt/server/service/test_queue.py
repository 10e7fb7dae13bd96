"""The bounded queue in front of the slots."""

import asyncio

import msgspec

from cog_adapt.server.errors import QueueFull
from cog_adapt.server.service.prediction import Prediction, PredictionSpec
from cog_adapt.server.service.slots import Queue
from tests.cog_adapt.server.service.harness import events_of


def filled(count, most=500):
    async def make():
        queue = Queue(most)
        for number in range(count):
            request = PredictionSpec(f"p{number}", "predict", b"{}", b"{}")
            queue.append(Prediction(request, history=10))
        return queue

    return asyncio.run(make())


def positions(prediction):
    events = events_of(prediction)
    assert {event.name for event in events} <= {"queued"}
    return [msgspec.json.decode(event.data)["position"] for event in events]


def test_a_full_queue_says_how_many_wait_how_many_may_and_when_to_come_back():
    refusal = Queue(5).refusal(7)
    assert isinstance(refusal, QueueFull)
    assert str(refusal) == "7 predictions wait; at most 5 may (MAX_QUEUE). Try later."
    assert refusal.retry_after == 1


def test_the_first_hundred_get_their_places():
    queue = filled(102)
    queue.publish_positions()
    assert [positions(each) for each in queue] == [[n + 1] for n in range(100)] + [[], []]
