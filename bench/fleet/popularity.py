"""How often each adapter is asked for: Zipf's law, and what a cache in long use holds of it."""

import numpy as np
from numpy.typing import NDArray

Shares = NDArray[np.float64]
Numbers = NDArray[np.int64]
_HALVINGS = 80


def zipf(count: int, exponent: float) -> Shares:
    """Return each adapter's share of the requests, shape (count,), the most popular first."""
    weights = np.arange(1, count + 1, dtype=np.float64) ** -exponent
    shares: Shares = weights / weights.sum()
    return shares


def drawn(shares: Shares, count: int, random: np.random.Generator) -> Numbers:
    """Draw the adapters of so many requests."""
    running = np.cumsum(shares)
    found = np.searchsorted(running, random.random(count) * running[-1])
    numbers: Numbers = np.minimum(found, len(shares) - 1)
    return numbers


def in_long_use(
    adapters: Numbers, shares: Shares, limit: int, random: np.random.Generator
) -> list[int]:
    """Draw what a cache holds after long use, the longest unused first.

    By Che's approximation an adapter is held if it was asked for within the cache's age, one age
    for all adapters; the times since the last uses of those held are exponential, cut at that age.

    Args:
        adapters: those that the cache's server is asked for.
        shares: of each of these, shape as `adapters`.
        limit: adapters that the cache holds.
        random: draws.
    """
    if limit >= len(adapters):
        ages = random.exponential(1 / shares)
        return [int(adapters[place]) for place in np.argsort(-ages)]
    age = cache_age(shares, limit)
    ages = random.exponential(1 / shares)
    order = np.argsort(ages)[:limit] if np.count_nonzero(ages < age) > limit else _within(ages, age)
    return [int(adapters[place]) for place in order[::-1]]


def cache_age(shares: Shares, limit: int) -> float:
    """Return the number of requests after which an unused adapter leaves a cache."""
    low, high = 0.0, 1.0
    while held(shares, high) < limit:
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if held(shares, middle) < limit else (low, middle)
    return high


def held(shares: Shares, age: float) -> float:
    """Return how many adapters are asked for within so many requests, on average."""
    return float(-np.expm1(-shares * age).sum())


def hit_rate(shares: Shares, limit: int) -> float:
    """Return the share of requests whose adapter a cache holds, by Che's approximation."""
    if limit >= len(shares):
        return 1.0
    return float((shares * -np.expm1(-shares * cache_age(shares, limit))).sum() / shares.sum())


def _within(ages: Shares, age: float) -> Numbers:
    order = np.argsort(ages)
    return order[: np.count_nonzero(ages < age)]
