"""Fewer garbage collections while a model is loaded."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_THRESHOLDS = (5_000, 10, 10)


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect at each 5,000 new objects, not 700: nearly all that imports make stays.

    A sixth of the processor time until the shipped model is ready went into collections that found
    nothing; 50,000 saves no more, and lets garbage take more memory. Thresholds that the user's
    code sets meanwhile are kept.
    """
    before = gc.get_threshold()
    gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        if gc.get_threshold() == _THRESHOLDS:
            gc.set_threshold(*before)
