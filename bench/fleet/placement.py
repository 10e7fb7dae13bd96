"""Which server a request goes to.

A server has a free slot while fewer than `SLOTS` requests are at it. Nobody waits for a warm one.
"""

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Name = Literal["random", "hash", "warm first", "warm, near"]
RANDOM: Name = "random"
HASH: Name = "hash"
WARM_FIRST: Name = "warm first"
WARM_NEAR: Name = "warm, near"
PLACEMENTS = (RANDOM, HASH, WARM_FIRST, WARM_NEAR)
SLOTS = 32
NEAR = SLOTS // 8  # requests that a warm server may have more: as workers of one server may
FALLBACKS = 2  # of a hash: the next servers on the ring
_ODD = 0x9E3779B97F4A7C15
_MASK = 2**64 - 1
Place = Callable[[int], int]


class Load:
    """How many requests are at each server.

    Args:
        count: of the servers.
        random: orders servers with equally many requests.
    """

    def __init__(self, count: int, random: np.random.Generator) -> None:
        self._at: NDArray[np.float64] = random.random(count) / 2  # less than one request

    def __len__(self) -> int:
        """Count the servers."""
        return len(self._at)

    def change(self, server: int, by: int) -> None:
        """Count a request that has come (1), or has ended (-1)."""
        self._at[server] += by

    def has_slot(self, server: int) -> bool:
        """Return whether a server takes one more request."""
        return float(self._at[server]) < SLOTS

    def is_near(self, server: int) -> bool:
        """Return whether a server has few more requests than the one with the fewest."""
        return float(self._at[server] - self._at.min()) < NEAR + 1

    def idlest(self) -> int:
        """Return the server with the fewest requests."""
        return int(self._at.argmin())

    def idlest_of(self, servers: Sequence[int]) -> int:
        """Return which of these has the fewest requests."""
        return min(servers, key=self._at.__getitem__)


class Warm:
    """Which servers have an adapter in memory."""

    def __init__(self) -> None:
        self._servers: dict[int, list[int]] = {}

    def add(self, adapter: int, server: int) -> None:
        """Note a server that has read an adapter."""
        servers = self._servers.setdefault(adapter, [])
        if server not in servers:
            servers.append(server)

    def discard(self, adapter: int, server: int) -> None:
        """Note a server whose memory an adapter has left."""
        servers = self._servers.get(adapter, [])
        if server in servers:
            servers.remove(server)

    def of(self, adapter: int) -> Sequence[int]:
        """Return the servers that have an adapter in memory."""
        return self._servers.get(adapter, ())


def home(adapter: int, count: int) -> int:
    """Return the server that a hash gives an adapter: the same in every run."""
    mixed = (adapter + 1) * _ODD & _MASK
    mixed = (mixed ^ mixed >> 31) * _ODD & _MASK
    return (mixed >> 33) % count


def placing(name: Name, load: Load, warm: Warm, random: np.random.Generator) -> Place:
    """Return the function that chooses a server for an adapter's request."""
    count = len(load)

    def at_random(_adapter: int) -> int:
        return int(random.integers(count))

    def by_hash(adapter: int) -> int:
        first = home(adapter, count)
        ring = ((first + step) % count for step in range(1 + FALLBACKS))
        return next((each for each in ring if load.has_slot(each)), load.idlest())

    def warm_where(may: Callable[[int], bool]) -> Place:
        def place(adapter: int) -> int:
            servers = [each for each in warm.of(adapter) if may(each)]
            return load.idlest_of(servers) if servers else load.idlest()

        return place

    places = {
        RANDOM: at_random,
        HASH: by_hash,
        WARM_FIRST: warm_where(load.has_slot),
        WARM_NEAR: warm_where(load.is_near),
    }
    return places[name]
