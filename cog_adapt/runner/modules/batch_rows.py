"""The rows of a batch that a layer sees: inputs of several adapters, or examples of an adaptation.

A layer of a shared forward applies each row's own adapter, and a layer of an adaptation looks up
values stored for each example. So it has to know the rows that it sees: all rows of the batch in
order, unless the model declares others by `batch_rows`. This module knows no adapter.
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
    """Declare that the forwards inside see these rows of the batch, in this order.

    A model that sorts, groups or picks rows of its batch needs this declaration, so that each row
    meets its own adapter or example. The declaration only affects forwards whose rows have adapters
    or examples of their own.

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
    """Give the layers of the forwards inside the block a value for each row of the batch."""
    before = getattr(_forward, "holders", None)
    _forward.holders = holders
    try:
        yield
    finally:
        _forward.holders = before


def rows_now() -> tuple[Any, ...]:
    """Return the values of the current forward's rows; () if the rows have none."""
    return tuple(getattr(_forward, "holders", None) or ())


def holders_of(rows: int) -> Sequence[Any]:
    """Return the value of each row that a layer sees.

    Raises:
        ModeError: the model picked rows of its batch without `batch_rows`.
    """
    holders: Sequence[Any] = getattr(_forward, "holders", None) or ()
    if len(holders) != rows:
        raise ModeError(
            f"a layer of a shared forward sees {rows} rows; {len(holders)} were expected. If the "
            "model sorts, groups or picks rows, let it declare that by `cog_adapt.batch_rows`."
        )
    return holders
