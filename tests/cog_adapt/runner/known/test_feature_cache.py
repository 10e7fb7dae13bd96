"""Features of recent examples: by owner, by bytes, gone with what brought them."""

import pytest
import torch

from cog_adapt.runner.known import feature_cache
from cog_adapt.runner.known.feature_cache import FeatureCache

ROW = torch.zeros(4)  # 16 bytes


@pytest.fixture(autouse=True)
def _values_alone(monkeypatch):
    """Let entries have the bytes of their values."""
    monkeypatch.setattr(feature_cache, "ENTRY_BYTES", 0)
    monkeypatch.setattr(feature_cache, "TENSOR_BYTES", 0)


@pytest.fixture
def cache():
    return FeatureCache(128)


def test_what_is_kept_is_found_for_its_owner_alone(cache):
    cache.put("ann", ["a", "b"], [ROW, {"ids": ROW}])
    one, other, missing = cache.get("ann", ["a", "b", "c"])
    assert one is ROW
    assert other["ids"] is ROW
    assert missing is None
    assert cache.get("bob", ["a"]) == [None]
    assert cache.gauges() == {
        "feature_cache_bytes": 32.0,
        "feature_cache_entries": 2.0,
        "feature_cache_hits": 2.0,
        "feature_cache_misses": 2.0,
    }


def test_the_longest_unused_goes_first(cache):
    cache.put("ann", "abcd", [ROW] * 4)  # an owner has half
    cache.get("ann", ["a"])
    cache.put("ann", ["e"], [ROW])
    assert [each is None for each in cache.get("ann", "abcde")] == [False, True, *[False] * 3]


def test_what_is_too_big_is_not_kept(cache):
    cache.put("ann", ["a"], [torch.zeros(17)])
    assert (len(cache), cache.bytes) == (0, 0)


def test_they_go_with_what_brought_them_unless_another_did_too(cache):
    cache.put("ann", "ab", [ROW] * 2)
    cache.bring("ann", "ab", "one")
    cache.bring("ann", "bc", "two")
    cache.put("bob", "a", [ROW])
    cache.bring("bob", "a", "one")
    cache.forget("ann", "one")
    assert cache.get("ann", "a") == [None]
    assert cache.get("ann", "b")[0] is ROW
    assert cache.get("bob", "a")[0] is ROW
    cache.forget("ann", "two")
    assert cache.get("ann", "b") == [None]
    assert cache.bytes == 16


def test_what_nothing_brought_can_be_discarded(cache):
    cache.put("ann", ["a", "b", None], [ROW] * 3)
    cache.bring("ann", ["a", None], "one")
    cache.discard("ann", ["a", "b", "c", None])
    assert cache.get("ann", ["b", None]) == [None, None]
    assert cache.get("ann", ["a"])[0] is ROW


def test_all_of_an_owner_can_be_forgotten(cache):
    cache.put("ann", "ab", [ROW] * 2)
    cache.put("bob", "a", [ROW])
    cache.forget("ann")
    assert (len(cache), cache.bytes) == (1, 16)


def test_a_discard_while_the_lock_is_held_waits_for_the_next_put(cache):
    def digests():
        cache.discard("ann", ["a"])  # as a collection of garbage does, at any allocation
        yield "b"

    cache.put("ann", ["a", "b"], [ROW, ROW])
    assert cache.get("ann", digests()) == [ROW]
    assert len(cache) == 2
    cache.put("ann", ["c"], [ROW])
    assert [each is None for each in cache.get("ann", "abc")] == [True, False, False]


def test_what_an_entry_takes_besides_its_values_counts(monkeypatch):
    cache = FeatureCache(2**10)
    monkeypatch.setattr(feature_cache, "ENTRY_BYTES", 10)
    monkeypatch.setattr(feature_cache, "TENSOR_BYTES", 4)
    cache.put("ann", "ab", [ROW, {"ids": ROW, "mask": ROW}])
    assert cache.bytes == (10 + 4 + 16) + (10 + 8 + 32)


def test_who_keeps_more_pays_for_no_entries_of_others():
    """A put, a get and a forget compare few owners, however many entries others have kept."""
    asked = 0

    class Owner(str):
        __slots__ = ()

        def __eq__(self, other):
            nonlocal asked
            asked += 1
            return str(self) == str(other)

        __hash__ = str.__hash__

    cache = FeatureCache(2**20)
    for number in range(2_000):
        cache.put(Owner("bob"), [str(number)], [ROW])
    asked = 0
    cache.put(Owner("ann"), "ab", [ROW] * 2)
    cache.get(Owner("ann"), "a")
    cache.forget(Owner("ann"))
    assert 0 < asked < 200
    cache.forget("bob")
    assert (cache.bytes, len(cache)) == (0, 0)
