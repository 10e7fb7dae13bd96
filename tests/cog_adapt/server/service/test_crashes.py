"""How long a worker rests after a crash."""

import pytest

from cog_adapt.server.service.crashes import pause_before_start


@pytest.mark.parametrize(
    ("crashes", "seconds"),
    [(0, 0.1), (1, 0.1), (2, 0.4), (3, 1.6), (5, 25.6), (6, 30.0), (9, 30.0)],
)
def test_each_pause_is_four_times_the_one_before_up_to_half_a_minute(crashes, seconds):
    assert pause_before_start(crashes, 100) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("crashes", "seconds"), [(3, 10), (4, 20), (5, 40), (7, 160), (8, 300), (50, 300)]
)
def test_a_defunct_worker_rests_longer_each_time_up_to_five_minutes(crashes, seconds):
    assert pause_before_start(crashes, 3) == seconds
