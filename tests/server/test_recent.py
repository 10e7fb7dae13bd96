import asyncio

from server.prediction import Order, Prediction
from server.recent import Recent


def ended(name, **order):
    async def make():
        prediction = Prediction(Order(name, "predict", b"{}", b"{}", **order), history=10)
        prediction.add_output(b'"%s"' % (b"x" * 1000))
        prediction.events.close()
        return prediction

    return asyncio.run(make())


def test_the_latest_are_kept_and_the_oldest_go_first():
    recent = Recent(most_bytes=4 * 5500)
    for number in range(6):
        recent.add(ended(f"p{number}", keeps=True))
    kept = [name for name in map("p{}".format, range(6)) if recent.get(name)]
    assert kept == ["p2", "p3", "p4", "p5"]


def test_one_id_is_kept_once():
    recent, last = Recent(most_bytes=3 * 5500), ended("a", keeps=True)
    for prediction in (ended("b", keeps=True), *(ended("a", keeps=True) for _ in range(9)), last):
        recent.add(prediction)
    assert recent.get("a") is last
    assert recent.get("b")


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
