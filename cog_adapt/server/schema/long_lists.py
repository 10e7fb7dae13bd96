"""Shortens faulty lists: a few of the faulty items stand for all.

Collecting every error takes 14 us for each, and makes an answer longer than the request.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from cog_adapt.server.schema.problems import MOST_PROBLEMS

_BLOCK = 256


class ShortLists(msgspec.Struct, frozen=True):
    """Inputs whose long lists hold only their first faulty items.

    Attributes:
        inputs: the shortened inputs.
        places: by name, the position of each of these items in the caller's list.
        passed_over: the number of unchecked items.
    """

    inputs: Any
    places: dict[str, list[int]]
    passed_over: int

    def place(self, path: list[str | int]) -> list[str | int]:
        """Return the position, in the caller's inputs, of the value at a path."""
        if len(path) < 2 or path[0] not in self.places:
            return path
        return [path[0], self.places[str(path[0])][int(path[1])], *path[2:]]


def shorten_lists(inputs: Mapping[str, Any], fits: Callable[[object], bool]) -> ShortLists:
    """Shorten the lists that have more items than a refusal shows problems.

    Args:
        inputs: a caller's inputs, any JSON.
        fits: a function that returns whether the values of some inputs are allowed.
    """
    changed, places, passed_over = dict(inputs), dict[str, list[int]](), 0
    for name, value in inputs.items():
        if not isinstance(value, list) or len(value) <= MOST_PROBLEMS or not fits({name: []}):
            continue  # a short list, or a list where none is allowed, is one problem
        places[name], end = _find_faulty(value, partial(_fit, fits, name))
        changed[name] = [value[position] for position in places[name]]
        passed_over += len(value) - end
    return ShortLists(changed, places, passed_over)


def _fit(fits: Callable[[object], bool], name: str, items: list[Any]) -> bool:
    return fits({name: items})


def _find_faulty(items: list[Any], fits: Callable[[list[Any]], bool]) -> tuple[list[int], int]:
    """Return the positions of the first faulty items, and the start of the rest."""
    found: list[int] = []
    for start in range(0, len(items), _BLOCK):
        block = items[start : start + _BLOCK]
        if not fits(block):
            found += [start + step for step, item in enumerate(block) if not fits([item])]
        if len(found) >= MOST_PROBLEMS:
            return found[:MOST_PROBLEMS], found[MOST_PROBLEMS - 1] + 1
    return found, len(items)
