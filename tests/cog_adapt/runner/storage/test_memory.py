"""Memory holds bytes, not counts; the longest unused goes first."""

import pytest

from cog_adapt.runner.storage.memory import Memory
from tests.cog_adapt.runner.storage.made import adapter_of

SIZE = adapter_of(0).nbytes


@pytest.fixture
def memory():
    return Memory(4 * SIZE, 3 * SIZE)


def put(memory, *keys):
    for key in keys:
        assert memory.put(key, adapter_of(0)) is True


def held(memory):
    return {
        key
        for key in (("a", "1"), ("a", "2"), ("a", "3"), ("a", "4"), ("b", "1"), ("b", "2"))
        if memory.get(key)
    }


def test_bytes_are_bounded_in_all_and_the_longest_unused_goes(memory):
    put(memory, ("a", "1"), ("a", "2"), ("b", "1"), ("b", "2"))
    assert memory.get(("a", "1"))
    put(memory, ("c", "1"))
    assert held(memory) == {("a", "1"), ("b", "1"), ("b", "2")}
    assert memory.bytes == 4 * SIZE


def test_a_large_adapter_takes_the_room_of_many(memory):
    put(memory, ("a", "1"), ("b", "1"), ("b", "2"))
    assert memory.put(("a", "4"), adapter_of(0, rows=6)) is True
    assert held(memory) == {("a", "4"), ("b", "2")}


def test_one_that_cannot_fit_is_not_kept(memory):
    put(memory, ("a", "1"))
    assert memory.put(("a", "4"), adapter_of(0, rows=8)) is False
    assert held(memory) == {("a", "1")}


def test_hits_and_misses_are_counted(memory):
    put(memory, ("a", "1"))
    memory.get(("a", "1"))
    memory.get(("a", "2"))
    assert (memory.counts.hits, memory.counts.misses) == (1, 1)
