"""Requests by time: each waits for its server's model thread, and finds its adapter in a tier.

A request first reads its adapter's tensors, beside other requests; its forward, and the making of a
module that is not ready, then take the server's one model thread, in order of arrival.
"""

import math
from collections import Counter
from dataclasses import dataclass, replace
from heapq import heappop, heappush

import numpy as np

from bench.fleet.placement import RANDOM, WARM_FIRST, WARM_NEAR, Load, Name, Warm, home, placing
from bench.fleet.popularity import Numbers, Shares, drawn, in_long_use, zipf
from bench.fleet.tiers import Budgets, Found, Tiers

_WARM_UP = 5  # the first fifth of the requests is not counted
_ALIKE = 2  # servers simulated where all are alike


@dataclass(frozen=True)
class Times:
    """Seconds of one request's parts, for an adapter of one size.

    Attributes:
        forward: on the model thread, with the module ready.
        ready: more on the model thread if the module has to be made.
        disk: to read the file and check its digest, before the model thread.
        store: to fetch it from the store as well.
    """

    forward: float
    ready: float
    disk: float
    store: float

    def before(self, found: Found) -> float:
        """Return the seconds until the tensors are in memory."""
        return {"memory": 0.0, "disk": self.disk, "store": self.disk + self.store}[found.place]

    def on_thread(self, found: Found) -> float:
        """Return the seconds on the model thread."""
        return self.forward if found.ready else self.forward + self.ready


@dataclass(frozen=True)
class Fleet:
    """What is simulated.

    Attributes:
        servers: each with one device.
        adapters: that are asked for.
        size: bytes of each.
        budgets: of each server's tiers.
        times: of a request's parts.
        load: requests a second, as a share of what servers with every module ready would answer.
        exponent: of Zipf's law.
    """

    servers: int
    adapters: int
    size: int
    budgets: Budgets
    times: Times
    load: float = 0.5
    exponent: float = 1.0


@dataclass(frozen=True)
class Outcome:
    """What the counted requests found.

    Attributes:
        ready: share whose module was ready on the device.
        memory: share whose tensors were in memory; `disk` and `store` likewise: they add up to 1.
        moved: bytes a request from the store.
        busy: share of the servers' time that their model threads work.
        busiest: the busiest server's requests, as a multiple of the mean.
        median: seconds from arrival to answer; `p99` likewise.
    """

    ready: float
    memory: float
    disk: float
    store: float
    moved: float
    busy: float
    busiest: float
    median: float
    p99: float


def simulate(fleet: Fleet, name: Name, requests: int, seed: int = 0) -> Outcome:
    """Simulate a fleet in long use.

    With placement at random the servers are independent of each other and alike, so two are
    simulated.
    """
    if name == RANDOM:
        fleet = replace(fleet, servers=min(fleet.servers, _ALIKE))
    random = np.random.default_rng(seed)
    shares = zipf(fleet.adapters, fleet.exponent)
    servers = warmed(fleet, name, shares, random)
    return _Run(fleet, name, servers, random).of(drawn(shares, requests, random))


def warmed(fleet: Fleet, name: Name, shares: Shares, random: np.random.Generator) -> list[Tiers]:
    """Return servers whose tiers hold what they hold after long use under this placement."""
    everything = np.arange(fleet.adapters)
    deepest = max(fleet.budgets.memory, fleet.budgets.disk)
    if name == RANDOM:
        return [
            Tiers(fleet.budgets, in_long_use(everything, shares, deepest, random))
            for _ in range(fleet.servers)
        ]
    homes = np.fromiter(
        (home(adapter, fleet.servers) for adapter in range(fleet.adapters)), np.int64
    )
    by_home = np.argsort(homes, kind="stable")
    bounds = np.searchsorted(homes[by_home], np.arange(fleet.servers + 1))
    own = (by_home[low:high] for low, high in zip(bounds, bounds[1:], strict=False))
    return [Tiers(fleet.budgets, in_long_use(each, shares[each], deepest, random)) for each in own]


class _Run:
    """One simulation: the servers, their loads and what is counted."""

    def __init__(
        self, fleet: Fleet, name: Name, servers: list[Tiers], random: np.random.Generator
    ) -> None:
        self._fleet = fleet
        self._servers = servers
        self._load = Load(fleet.servers, random)
        self._free_at = [0.0] * fleet.servers
        self._warm = Warm()
        self._knows_warm = name in (WARM_FIRST, WARM_NEAR)
        known = enumerate(servers) if self._knows_warm else ()
        for adapter, number in ((each, number) for number, tiers in known for each in tiers.memory):
            self._warm.add(adapter, number)
        self._place = placing(name, self._load, self._warm, random)
        self._random = random
        self._later: list[tuple[float, int, float, float]] = []
        self._first = 0.0
        self._found: Counter[str] = Counter()
        self._busy = 0.0
        self._at: Counter[int] = Counter()
        self._waits: list[float] = []

    def of(self, adapters: Numbers) -> Outcome:
        """Run the requests, and count all but the first ones."""
        fleet = self._fleet
        rate = fleet.load * fleet.servers / fleet.times.forward
        arrivals = np.cumsum(self._random.exponential(1 / rate, len(adapters)))
        self._first = float(arrivals[len(adapters) // _WARM_UP])
        for now, adapter in zip(arrivals.tolist(), adapters.tolist(), strict=True):
            self._until(now)
            self._arrive(now, adapter)
        self._until(math.inf)
        return self._outcome(float(arrivals[-1]) - self._first)

    def _arrive(self, now: float, adapter: int) -> None:
        times, server = self._fleet.times, self._place(adapter)
        found = self._servers[server].look_up(adapter)
        self._load.change(server, 1)
        if self._knows_warm and found.place != "memory":
            self._warm.add(adapter, server)
            if found.left is not None:
                self._warm.discard(found.left, server)
        takes = times.on_thread(found)
        heappush(self._later, (now + times.before(found), server, takes, now))
        if now >= self._first:
            self._found[found.place] += 1
            self._found["ready"] += found.ready
            self._at[server] += 1
            self._busy += takes

    def _until(self, now: float) -> None:
        """Let what has happened by now happen: tensors that were read, requests that ended."""
        while self._later and self._later[0][0] <= now:
            at, server, takes, arrived = heappop(self._later)
            if takes < 0:
                self._load.change(server, -1)
                continue
            ends = self._free_at[server] = max(at, self._free_at[server]) + takes
            heappush(self._later, (ends, server, -1.0, arrived))
            if arrived >= self._first:
                self._waits.append(ends - arrived)

    def _outcome(self, seconds: float) -> Outcome:
        count, fleet = len(self._waits), self._fleet
        shares = {name: self._found[name] / count for name in ("ready", "memory", "disk", "store")}
        median, p99 = np.quantile(self._waits, (0.5, 0.99))
        return Outcome(
            **shares,
            moved=shares["store"] * fleet.size,
            busy=self._busy / (seconds * fleet.servers),
            busiest=max(self._at.values()) * fleet.servers / count,
            median=float(median),
            p99=float(p99),
        )
