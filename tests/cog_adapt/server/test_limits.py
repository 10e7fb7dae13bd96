"""How slowly bytes may come."""

from cog_adapt.server.limits import Pace


def test_a_silence_as_long_as_the_pause_is_the_end():
    pace = Pace(3)
    pace.note(2.9, 0)
    assert pace.left > 0
    pace.note(0.2, 0)
    assert pace.left <= 0


def test_a_drip_ends_however_much_came_before():
    pace = Pace(3)
    pace.note(0.5, 60_000_000)
    for _ in range(31):
        pace.note(0.1, 1)
    assert pace.left <= 0


def test_a_steady_sender_may_go_on_for_ever():
    pace = Pace(3)
    for _ in range(10_000):
        pace.note(1, 1024)
    assert pace.left == 3
