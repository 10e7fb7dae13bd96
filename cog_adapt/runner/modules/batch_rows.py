"""Which rows of a batch a layer sees: inputs of several adapters, or examples of an adaptation.

A layer of a shared forward gives each row what its own adapter calls for, and one of an adaptation
finds what is kept for each example. So it has to know which rows of the batch it sees: all of them
in order, unless the model says otherwise by `batch_rows`. This module knows no adapter.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from cog_adapt.runner.errors import ModeError

_forward = threading.local()


@contextmanager
def batch_rows(rows: Tensor) -> Iterator[None]:
    """Say that the forwards inside see these rows of the batch, in this order.

    A model that sorts, groups or picks rows of its batch needs it, so that each row meets its own
    adapter or example. Where nothing is held for the rows it does nothing.

    Args:
        rows: positions in the batch, shape (n,).
    """
    whole: Sequence[Any] | None = getattr(_forward, "holders", None)
    if whole is None:
        yield
        return
    with holding([whole[row] for row in rows.tolist()]):
        yield


@contextmanager
def holding(holders: Sequence[Any]) -> Iterator[None]:
    """Let layers inside find what belongs to each row of the batch."""
    before = getattr(_forward, "holders", None)
    _forward.holders = holders
    try:
        yield
    finally:
        _forward.holders = before


def rows_now() -> tuple[Any, ...]:
    """Return what is held for the rows that are seen now; () where nothing is."""
    return tuple(getattr(_forward, "holders", None) or ())


def holders_of(rows: int) -> Sequence[Any]:
    """Return what belongs to each of the rows that a layer sees.

    Raises:
        ModeError: the model picked rows of its batch and did not say so.
    """
    holders: Sequence[Any] = getattr(_forward, "holders", None) or ()
    if len(holders) != rows:
        raise ModeError(
            f"a layer of a shared forward sees {rows} rows; {len(holders)} were expected. Where "
            "the model sorts, groups or picks rows, let it say so by `cog_adapt.batch_rows`."
        )
    return holders
