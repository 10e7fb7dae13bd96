"""Noise by row: a generator for each example of a batch, in a task's loss.

An example draws from the step's seed and its own position, so that its noise depends neither on the
cut of its batch into parts nor on the other rows.
"""

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from cog_adapt.runner.errors import ModeError
from cog_adapt.runner.modules.batch_rows import holding, rows_now
from gradient_check.phases.randomness import derive_seed, row_seed_now

_loss = threading.local()


class _RowNoise:
    """The generators of one call of a loss; a row that asks again continues with its own."""

    def __init__(self, seed: int, device: torch.device, earlier: Sequence[int]) -> None:
        self.seed = seed
        self.device = device
        self.earlier = Counter(earlier)
        self._generators: dict[tuple[int, int], torch.Generator] = {}

    def of(self, rows: Sequence[int]) -> list[torch.Generator]:
        """Return the generators of rows by their positions; a repeated row draws other noise."""
        seen = self.earlier.copy()
        found = []
        for row in rows:
            found.append(self._of((row, seen[row])))
            seen[row] += 1
        return found

    def _of(self, key: tuple[int, int]) -> torch.Generator:
        if key not in self._generators:
            made = torch.Generator(self.device)
            self._generators[key] = made.manual_seed(derive_seed(self.seed, "row", *key))
        return self._generators[key]


def _noise_now(earlier: Sequence[int]) -> _RowNoise | None:
    """Return the noise of the work that runs on this thread; None where it has no seed."""
    given = row_seed_now()
    if given is None:
        return None
    seed, device = given
    return _RowNoise(seed, device, earlier)


@contextmanager
def drawing_by_row(positions: Sequence[int], earlier: Sequence[int] = ()) -> Iterator[None]:
    """Let a loss inside ask for `row_generators`, on the device and with the seed of its work.

    Args:
        positions: of the rows' examples, which also are the rows' values (`batch_rows`).
        earlier: positions of rows in earlier parts of the batch, which may repeat an example.
    """
    before = getattr(_loss, "noise", None)
    _loss.noise = _noise_now(earlier)
    try:
        with holding(positions):
            yield
    finally:
        _loss.noise = before


def row_generators() -> list[torch.Generator]:
    """Return a random generator for each row of the batch, on the batch's device.

    A row's noise follows from the step's seed and its example alone: it is the same in another part
    of a step, beside other rows, and when an adaptation is replayed. A second call in the same loss
    returns the same generators, which continue. For use in `Task.loss` and `Task.score`:

        noise = torch.stack(
            [torch.randn(x.shape[1:], generator=g, device=x.device) for g in row_generators()]
        )

    Raises:
        ModeError: no loss of a task is being computed on this thread.
    """
    noise: _RowNoise | None = getattr(_loss, "noise", None)
    if noise is None:
        raise ModeError(
            "row_generators() was called outside a task's loss, where there is neither a step nor "
            "a batch. Call it in `Task.loss` or `Task.score`, or make a torch.Generator."
        )
    return noise.of(rows_now())
