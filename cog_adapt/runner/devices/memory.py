"""Turns out of memory errors into sentences, after the memory was released."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from cog_adapt.runner.errors import AdaptationError, PredictionError
from gradient_check.phases.memory import first_line, free_cache, is_out_of_memory

_MEGABYTE, _GIGABYTE = 2**20, 2**30
_REMEDIES = {
    AdaptationError: (
        "during a step",
        "Use a smaller batch_size or rank, checkpointing, or shorter inputs.",
    ),
    PredictionError: (
        "in a prediction",
        "Send fewer or shorter inputs at once, or start the server with a smaller BATCH_SIZE.",
    ),
}


def in_words(size: float) -> str:
    """Return a number of bytes in words."""
    if size >= _GIGABYTE:
        return f"{size / _GIGABYTE:.3g} GB"
    return f"{size / _MEGABYTE:.3g} MB"


def out_of_memory(
    error: BaseException, kind: type[AdaptationError | PredictionError]
) -> AdaptationError | PredictionError | None:
    """Return the error for work that did not fit in memory, or None for other failures."""
    if not is_out_of_memory(error):
        return None
    when, remedy = _REMEDIES[kind]
    return kind(f"memory ran out {when}: {first_line(error)}. {remedy}")


@contextmanager
def explaining_memory(
    device: torch.device, kind: type[AdaptationError | PredictionError]
) -> Iterator[None]:
    """Raise `kind` if memory runs out inside, after the device's memory was released.

    The frames of the error are cleared, whose locals would keep activations alive.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        refusal = out_of_memory(error, kind)
        if refusal is None:
            raise
        traceback.clear_frames(error.__traceback__)
        free_cache(device)
        raise refusal from error
