import asyncio

from cog_adapt.server.protocol import OWNER_KEY, Finished
from cog_adapt.server.service.event_cache import CachedEvents, EventCache
from cog_adapt.server.service.prediction import Prediction, PredictionSpec
from cog_adapt.server.shares.budget import Budget
from gradient_check.tests.present import present

SIZE = 3400  # of what is kept of one below


def ended(name, size=1000, budget=None, **request):
    async def make():
        prediction = Prediction(
            PredictionSpec(name, "predict", b"{}", b"{}", **request), 10, budget
        )
        prediction.add_output(b'"%s"' % (b"x" * size))
        prediction.finish(Finished(name, "succeeded"))
        prediction.events.close()
        return prediction

    return asyncio.run(make())


def test_the_latest_are_kept_and_the_oldest_go_first():
    event_cache = EventCache(most_bytes=20 * SIZE)
    for number in range(30):
        event_cache.add(ended(f"p{number}", durable=True))
    assert [number for number in range(30) if event_cache.get(f"p{number}")] == list(range(10, 30))


def test_what_nobody_can_have_followed_is_not_kept():
    event_cache, followed = EventCache(most_bytes=2**20), ended("followed")
    followed.events.follow()
    for prediction in (ended("plain"), ended("named", has_client_id=True), followed):
        event_cache.add(prediction)
    assert [event_cache.get(name) is not None for name in ("plain", "named", "followed")] == [
        False,
        True,
        True,
    ]


def test_an_eighth_of_the_whole_may_be_one():
    prediction = ended("a", durable=True)
    size = CachedEvents(prediction.events, prediction.completed()).size
    assert SIZE - 200 < size < SIZE
    for most_bytes, is_kept in ((8 * size, True), (8 * size - 1, False), (0, False)):
        event_cache = EventCache(most_bytes)
        event_cache.add(prediction)
        assert (event_cache.get("a") is not None) is is_kept


def test_what_is_forgotten_leaves_no_weight():
    budget = Budget("events", "EVENT_BYTES", 100 * SIZE)
    event_cache = EventCache(20 * SIZE, budget)
    for _ in range(3):
        event_cache.add(ended("a", durable=True, budget=budget))
    assert budget.used == present(event_cache.get("a")).size
    event_cache.forget("a")
    event_cache.forget("a")
    assert budget.used == 0


def test_what_ended_makes_room_for_what_runs():
    budget = Budget("events", "EVENT_BYTES", 10 * SIZE)
    event_cache = EventCache(30 * SIZE, budget)
    for number in range(4):
        prediction = ended(f"p{number}", durable=True, budget=budget)
        event_cache.add(prediction)
    assert event_cache.get("p0")
    assert budget.used == sum(present(event_cache.get(f"p{number}")).size for number in range(4))
    budget.add("", 8 * SIZE)
    assert not budget.is_over("")
    assert [event_cache.get(f"p{number}") is not None for number in range(4)] == [
        *(False, False),
        *(True, True),
    ]
    budget.add("", 9 * SIZE)
    assert budget.is_over("")
    assert (event_cache.get("p3"), budget.used) == (None, 17 * SIZE)


def test_what_is_not_kept_is_off_the_budget():
    budget = Budget("events", "EVENT_BYTES", 100 * SIZE)
    event_cache = EventCache(2 * SIZE, budget)
    event_cache.add(ended("plain", budget=budget))
    event_cache.add(ended("large", durable=True, budget=budget))
    assert budget.used == 0


def test_an_owner_over_the_share_makes_room_with_events_of_the_same_owner():
    budget = Budget("events", "EVENT_BYTES", 10 * SIZE, share=0.5)
    event_cache = EventCache(30 * SIZE, budget)
    bob, *anns = ({OWNER_KEY: name} for name in ("bob", *["ann"] * 6))
    event_cache.add(ended("mine", durable=True, budget=budget, context=bob))
    for number, context in enumerate(anns):
        event_cache.add(ended(f"p{number}", durable=True, budget=budget, context=context))
    assert event_cache.get("mine", "bob")
    assert event_cache.get("p0", "ann") is None
    assert event_cache.get("p5", "ann")
    assert budget.used_by("ann") <= 5 * SIZE
    event_cache.drop("ann")
    assert (budget.used_by("ann"), budget.used) == (0, present(event_cache.get("mine", "bob")).size)
