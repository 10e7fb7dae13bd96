"""Bounds the work in a tick by the measured pace of earlier ticks. This module knows no task."""

import time
from collections import deque
from collections.abc import Callable

import torch
from torch import Tensor

from cog_adapt.runner.task.task import Batch

TICK_SECONDS = 0.075  # a short request takes at most two such ticks: the running one and its own
_FIRST_TOKENS = 512  # tokens of a tick until a pace has been measured
_REMEMBERED = 32
MASK = "attention_mask"


class InferencePace:
    """Measures the pace of inference in tokens a second.

    The best of the latest ticks counts: a tick that was disturbed, or too small to keep the cores
    busy, says little about a full tick. On a CPU the thread's own time counts: beside other load,
    smaller ticks would be slower still, since each reads all weights.
    """

    def __init__(self, device: torch.device) -> None:
        self._rates: deque[float] = deque(maxlen=_REMEMBERED)
        self.clock: Callable[[], float] = (
            time.thread_time if device.type == "cpu" else time.monotonic
        )

    def record(self, tokens: int, seconds: float) -> None:
        """Remember a tick."""
        self._rates.append(tokens / max(seconds, 1e-9))

    def limit(self) -> int | None:
        """Return the tokens that fit a tick; None before the first measurement."""
        return max(1, int(max(self._rates) * TICK_SECONDS)) if self._rates else None


def costs_of(batch: Batch) -> list[int]:
    """Return the tokens of each row; without an attention mask, the count of its numbers."""
    mask = batch.get(MASK)
    if mask is not None:
        return [max(1, int(tokens)) for tokens in mask.reshape(len(mask), -1).sum(1).tolist()]
    rows = len(next(iter(batch.values())))
    return [max(1, sum(_numbers_a_row(tensor) for tensor in batch.values()))] * rows


def first_limit(batch: Batch) -> int | None:
    """Return the limit of a tick before any pace is measured; None: the batch size alone."""
    return _FIRST_TOKENS if MASK in batch else None


def _numbers_a_row(tensor: Tensor) -> int:
    return tensor.numel() // max(1, len(tensor))
