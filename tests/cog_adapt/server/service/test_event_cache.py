import asyncio

from cog_adapt.server.protocol import Finished
from cog_adapt.server.service.event_cache import Recent
from cog_adapt.server.service.prediction import Order, Prediction

SIZE = 3400  # of what is kept of one below


def ended(name, size=1000, **order):
    async def make():
        prediction = Prediction(Order(name, "predict", b"{}", b"{}", **order), history=10)
        prediction.add_output(b'"%s"' % (b"x" * size))
        prediction.finish(Finished(name, "succeeded"))
        prediction.events.close()
        return prediction

    return asyncio.run(make())


def test_the_latest_are_kept_and_the_oldest_go_first():
    recent = Recent(most_bytes=20 * SIZE)
    for number in range(30):
        recent.add(ended(f"p{number}", keeps=True))
    assert [number for number in range(30) if recent.get(f"p{number}")] == list(range(10, 30))


def test_one_id_is_kept_once():
    recent = Recent(most_bytes=10 * SIZE)
    for name in ("b", *"a" * 30):
        recent.add(ended(name, keeps=True))
    assert recent.get("a").data == ended("a", keeps=True).completed()
    assert recent.get("b")


def test_of_what_is_kept_everything_counts_and_the_largest_is_not_kept():
    recent = Recent(most_bytes=20 * SIZE)
    recent.add(ended("small", keeps=True))
    recent.add(ended("large", size=3 * SIZE, keeps=True))
    assert recent.get("small")
    assert recent.get("large") is None


def test_what_nobody_can_have_followed_is_not_kept():
    recent, followed = Recent(most_bytes=2**20), ended("followed")
    followed.events.follow()
    for prediction in (ended("plain"), ended("named", is_named=True), followed):
        recent.add(prediction)
    assert [recent.get(name) is not None for name in ("plain", "named", "followed")] == [
        False,
        True,
        True,
    ]
