"""The simulation of a fleet agrees with what is known by other means."""

import numpy as np
import pytest

from bench.fleet.figures import committed, figures
from bench.fleet.limits import Prices, cost, saturation
from bench.fleet.placement import HASH, PLACEMENTS, RANDOM, WARM_FIRST, WARM_NEAR
from bench.fleet.popularity import drawn, hit_rate, in_long_use, zipf
from bench.fleet.simulation import Fleet, Times, simulate
from bench.fleet.tiers import Budgets, Tiers

TIMES = Times(forward=0.01, ready=0.005, disk=0.001, store=0.1)
BUDGETS = Budgets(device=4, memory=40, disk=100)


def fleet(servers=4, load=0.3, times=TIMES):
    return Fleet(servers, 400, 300_000, BUDGETS, times, load)


def test_a_tier_keeps_what_was_used_last_and_reads_the_nearest():
    tiers = Tiers(Budgets(device=1, memory=2, disk=3))
    for adapter in (1, 2, 3):
        assert tiers.look_up(adapter).place == "store"
    again = tiers.look_up(2)
    assert (again.ready, again.place) == (False, "memory")
    evicted = tiers.look_up(1)
    assert (evicted.place, evicted.left) == ("disk", 3)
    assert tiers.look_up(1).ready
    tiers.look_up(4)  # the disk lets 3 go, which was used before 2 and 1
    assert tiers.look_up(3).place == "store"


def test_a_cache_in_long_use_hits_as_often_as_one_that_ran_from_empty():
    random, shares = np.random.default_rng(0), zipf(400, 1.0)
    tiers = Tiers(BUDGETS)
    found = [tiers.look_up(each) for each in drawn(shares, 30_000, random).tolist()][5_000:]
    measured = sum(each.place == "memory" for each in found) / len(found)
    assert hit_rate(shares, BUDGETS.memory) == pytest.approx(measured, abs=0.01)
    warm = Tiers(BUDGETS, in_long_use(np.arange(400), shares, BUDGETS.disk, random))
    found = [warm.look_up(each) for each in drawn(shares, 4_000, random).tolist()]
    assert sum(each.place == "memory" for each in found) / 4_000 == pytest.approx(
        measured, abs=0.03
    )


def test_placement_by_adapter_finds_more_in_memory_than_at_random():
    found = {name: simulate(fleet(), name, 20_000) for name in PLACEMENTS}
    for name in (HASH, WARM_FIRST, WARM_NEAR):
        assert found[name].memory > found[RANDOM].memory + 0.1
        assert found[name].moved < found[RANDOM].moved
    for each in found.values():
        assert each.memory + each.disk + each.store == pytest.approx(1)


def test_a_hot_adapter_waits_less_where_a_warm_server_has_to_be_near():
    first, near = (simulate(fleet(16, 0.6), name, 30_000) for name in (WARM_FIRST, WARM_NEAR))
    assert near.p99 < first.p99 / 3


def test_an_adapter_that_is_fetched_keeps_no_other_waiting():
    slow = Times(forward=0.01, ready=0.0, disk=0.0, store=50.0)
    assert simulate(fleet(1, 0.3, slow), RANDOM, 20_000).median < 0.02


def test_the_committed_figures_name_their_files():
    assert figures()["front"].source.startswith("`serving.json`")
    with pytest.raises(KeyError, match="no row"):
        committed("overhead.json", {"what": "nothing"}, "ms", "ms")


def test_limits_and_costs_follow_their_formulas():
    used = saturation(a_second=50, front=0.0005, records=3_000, far=0.1, size=300_000)
    assert used.front == pytest.approx(0.025)
    assert used.database == pytest.approx(60)
    assert used.store == pytest.approx(1_100)
    made = cost(7.2, 0.5, 300_000, Prices(1.0, 0.02, 0.005))
    assert (made.computing, made.keeping, made.writing) == pytest.approx((4_000, 6, 15))
