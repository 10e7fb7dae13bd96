"""Features and encoded inputs of recent examples, for their owner's next adaptation.

They are removed with the adapter made from the examples. This module knows no model and no store.
"""

from collections.abc import Generator, Iterable, Sequence
from typing import Any, TypeVar

from torch import Tensor

from cog_adapt.runner.known.adaptation_key import input_digests
from cog_adapt.runner.known.feature_cache import FeatureCache
from cog_adapt.runner.task.task import Batch

T = TypeVar("T")
# rows take an eighth of the bytes: a row saves a tokenizer's time, features save a forward's
_ROW_SHARE = 8
_LARGEST_ROW = 2**16


class KeptExamples:
    """The caches of all owners' examples, usable on any thread.

    Args:
        most_bytes: of both caches; encoded inputs have an eighth of it.
        owner_share: of either cache, for the examples of one owner.

    Attributes:
        features: by the digest of an input.
        rows: encoded inputs, by the same digest.
    """

    def __init__(self, most_bytes: int, owner_share: float = 0.5) -> None:
        self.rows = FeatureCache(most_bytes // _ROW_SHARE, owner_share)
        self.features = FeatureCache(most_bytes - most_bytes // _ROW_SHARE, owner_share)
        self._both = (self.features, self.rows)

    def of(self, owner: str) -> "OwnExamples":
        """Return the cached examples of one owner, for one adaptation."""
        return OwnExamples(self, owner)

    def bring(self, owner: str, inputs: Sequence[Any], name: str) -> None:
        """Attach inputs to an adapter; they are removed with the last adapter that has them."""
        if any(map(len, self._both)):
            digests = input_digests(inputs)
            for cache in self._both:
                cache.bring(owner, digests, name)

    def discard(self, owner: str, inputs: Sequence[Any]) -> None:
        """Drop the given inputs that no adapter has: the run that cached them failed."""
        if any(map(len, self._both)):
            self.discard_digests(owner, input_digests(inputs))

    def discard_digests(self, owner: str, digests: Iterable[str | None]) -> None:
        """Drop inputs as `discard` does, by their digests."""
        own = [*digests]
        for cache in self._both:
            cache.discard(owner, own)

    def forget(self, owner: str, name: str | None = None) -> None:
        """Drop the inputs that this adapter alone has; None: all inputs of the owner."""
        for cache in self._both:
            cache.forget(owner, name)

    def gauges(self) -> dict[str, float]:
        """Return numbers for a server's metrics."""
        return self.features.gauges() | {"encoded_cache_bytes": float(self.rows.bytes)}


class OwnExamples:
    """The cached inputs of one owner, for one adaptation. Model thread only.

    Attributes:
        found: the number of inputs that had features.
    """

    def __init__(self, kept: KeptExamples, owner: str) -> None:
        self._kept = kept
        self._owner = owner
        self._rows_fit = True
        self._put: set[str | None] = set()
        self.found = 0

    def guarding(self, work: Generator[Any, None, T]) -> Generator[Any, None, T]:
        """Run an adaptation's work; drop the entries that it cached if it fails or is cancelled."""
        try:
            return (yield from work)
        except BaseException:
            self._kept.discard_digests(self._owner, self._put)
            raise

    def get(self, inputs: Sequence[Any]) -> list[Tensor | None]:
        """Return each input's features (D,), or None."""
        found = self._kept.features.get(self._owner, input_digests(inputs))
        rows = [row if isinstance(row, Tensor) else None for row in found]
        self.found += sum(row is not None for row in rows)
        return rows

    def put(self, inputs: Sequence[Any], rows: Sequence[Tensor]) -> None:
        """Store each input's features."""
        digests = input_digests(inputs)
        self._put.update(digests)
        self._kept.features.put(self._owner, digests, [row.clone() for row in rows])

    def get_row(self, value: Any) -> Batch | None:  # noqa: ANN401 - the task's own
        """Return an input's tensors, without a batch axis, or None."""
        if not self._rows_fit:
            return None
        (found,) = self._kept.rows.get(self._owner, input_digests([value]))
        return None if found is None or isinstance(found, Tensor) else {**found}

    def put_row(self, value: Any, row: Batch) -> None:  # noqa: ANN401
        """Store an input's tensors; after the first large ones (pictures, sounds) store no more."""
        self._rows_fit = self._rows_fit and sum(t.nbytes for t in row.values()) <= _LARGEST_ROW
        if self._rows_fit:
            digests = input_digests([value])
            self._put.update(digests)
            own = {name: tensor.clone() for name, tensor in row.items()}
            self._kept.rows.put(self._owner, digests, [own])
