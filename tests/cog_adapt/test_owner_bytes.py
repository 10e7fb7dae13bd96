"""Bytes by owner: nobody exceeds the share, and what is longest unused goes first."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from cog_adapt.owner_bytes import OwnerBytes, OwnerShares, turns_of_one

MOST, MOST_OF_OWNER = 20, 12
OWNERS, NAMES = st.sampled_from(["", "ann", "bob", "cy"]), st.sampled_from("abcd")
KEYS = st.tuples(OWNERS, NAMES)


class OwnerBytesMachine(RuleBasedStateMachine):
    """The counts beside a plain list of entries in the order of use.

    `shares` is told of bytes alone, of the same ones; "" may have all of them there.
    """

    def __init__(self):
        super().__init__()
        self.by_owner: OwnerBytes[str] = OwnerBytes(MOST, MOST_OF_OWNER)
        self.shares: OwnerShares[float] = OwnerShares(MOST, MOST_OF_OWNER, most_of_nobody=MOST)
        self.entries: dict[tuple[str, str], int] = {}

    def forget(self, key):
        self.shares.count(key[0], -self.entries.pop(key, 0))

    def bytes_of(self, owner):
        return sum(size for key, size in self.entries.items() if key[0] == owner)

    @rule(key=KEYS, size=st.integers(0, MOST_OF_OWNER))
    def add_and_drop(self, key, size):
        self.forget(key)
        self.entries[key] = size
        self.shares.count(key[0], size)
        self.by_owner.add(key, size)
        gone = []
        while self.bytes_of(key[0]) > MOST_OF_OWNER:
            gone.append(next(each for each in self.entries if each[0] == key[0]))
            self.forget(gone[-1])
        while sum(self.entries.values()) > MOST:
            gone.append(next(iter(self.entries)))
            self.forget(gone[-1])
        assert [*self.by_owner.drop_excess(key[0])] == gone

    @rule(key=KEYS)
    def discard(self, key):
        self.forget(key)
        self.by_owner.discard(key)

    @rule(key=KEYS)
    def use(self, key):
        if key in self.entries:
            self.entries[key] = self.entries.pop(key)
            self.by_owner.use(key)
        else:
            with pytest.raises(KeyError):
                self.by_owner.use(key)

    @rule(owner=OWNERS, size=st.integers(0, MOST))
    def ask_for_room(self, owner, size):
        own, whole = self.bytes_of(owner) + size, sum(self.entries.values()) + size
        assert self.by_owner.lacking(owner, size) == max(0, own - MOST_OF_OWNER)
        assert self.by_owner.fits(owner, size) == (own <= MOST_OF_OWNER and whole <= MOST)
        limit = MOST_OF_OWNER if owner else MOST
        assert self.shares.fits(owner, size) == (own <= limit and whole <= MOST)

    @rule(owner=OWNERS, more=st.integers(1, 5))
    def lessen_the_limits_and_measure_again(self, owner, more):
        most, most_of_owner = self.shares.bytes - more, self.shares.bytes_of("ann") - more
        self.shares.limit(most, most_of_owner, most_of_nobody=most)
        assert not self.shares.fits(owner, 0)
        assert self.shares.lacking("ann", 0) >= more
        sizes = {owner: self.bytes_of(owner) for owner in ("", "ann", "bob", "cy")}
        self.shares.reset(sizes)
        self.shares.limit(MOST, MOST_OF_OWNER, most_of_nobody=MOST)

    @invariant()
    def counts_are_those_of_the_entries(self):
        assert self.by_owner.bytes == self.shares.bytes == sum(self.entries.values()) <= MOST
        named = {owner: size for owner in ("ann", "bob", "cy") if (size := self.bytes_of(owner))}
        assert self.shares.named() == self.by_owner.named() == named
        assert self.shares.largest == max(named.values(), default=0)
        assert len(self.by_owner) == len(self.entries)
        for owner in ("", "ann", "bob", "cy"):
            own = [key for key in self.entries if key[0] == owner]
            assert self.by_owner.keys_of(owner) == own
            assert self.by_owner.count_of(owner) == len(own)
            assert self.by_owner.bytes_of(owner) == self.bytes_of(owner) <= MOST_OF_OWNER
            assert self.shares.bytes_of(owner) == self.bytes_of(owner)
        for owner, name in ((owner, name) for owner in ("", "ann") for name in "abcd"):
            key = (owner, name)
            assert (key in self.by_owner) == (key in self.entries)
            assert self.by_owner.size_of(key) == self.entries.get(key, 0)


TestOwnerBytes = OwnerBytesMachine.TestCase
TestOwnerBytes.settings = settings(max_examples=100, stateful_step_count=20, deadline=None)


def test_who_has_no_owner_may_have_all_where_that_is_said():
    by_owner: OwnerBytes[str] = OwnerBytes(MOST, MOST_OF_OWNER, most_of_nobody=MOST)
    assert (by_owner.most_of(""), by_owner.most_of("ann")) == (MOST, MOST_OF_OWNER)
    assert by_owner.fits("", MOST)
    assert not by_owner.fits("ann", MOST_OF_OWNER + 1)


def test_an_owner_has_no_more_than_there_is():
    assert OwnerBytes[str](10, 50).most_of("ann") == OwnerShares(10, 50).most_of_owner == 10


def test_of_eight_turns_or_more_a_quarter_is_for_others():
    assert [turns_of_one(most) for most in (1, 7, 8, 9, 12)] == [1, 7, 6, 7, 9]
