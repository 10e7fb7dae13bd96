"""Finds the adapter that answers a query, or makes it ready. Model thread only."""

from collections.abc import Generator, Iterable, Sequence

import torch

from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.inference.answers import Phase, Query
from cog_adapt.runner.inference.label_tensors import finished, label_tensors
from cog_adapt.runner.inference.served_adapters import ReadyAdapter, ServedAdapters
from cog_adapt.runner.modules.adapter_fit import check_fits
from cog_adapt.runner.modules.adapters import Adapter
from cog_adapt.runner.modules.loaded_base import LoadedBase, moved
from cog_adapt.shared_settings import share_of
from gradient_check.phases.memory import device_memory

_PART_OF_DEVICE = 8  # an eighth of the device's memory caches adapters that are ready
_CPU = torch.device("cpu")


class ReadyModules:
    """The adapters that answer queries; the base with a label set is one of them."""

    def __init__(self, phase: Phase, base: LoadedBase, settings: RunnerSettings) -> None:
        self._phase = phase
        self._base = base
        self._batch_size = settings.batch_size
        self.served = _served(base, settings)

    def ready(self, query: Query) -> ReadyAdapter | None:
        """Return the adapter that answers a query; None if it is not ready or not allowed."""
        return None if self._base.damage else self.served.find(self.key(query))

    def serving(self, query: Query) -> Generator[None, None, ReadyAdapter]:
        """Prepare the adapter that answers a query, some labels a tick."""
        if query.adapter is not None:
            return self.loaded(query)
        self._base.refuse_when_damaged()
        key = self.key(query)
        if key not in self.served:
            made = yield from self.starting_adapter(query.labels)
            return self.served.get(key, lambda: made)
        return self.served.get(key, lambda: finished(self.starting_adapter(query.labels)))

    def can_load(self, query: Query) -> bool:
        """Return whether a query's adapter can be made ready within one tick."""
        return query.adapter is not None and not self._base.damage

    def loaded(self, query: Query) -> ReadyAdapter:
        """Return a named adapter, made ready if it is not (WeightsError if it does not fit)."""
        self._base.refuse_when_damaged()
        adapter = query.adapter
        assert adapter is not None
        return self.served.get(self.key(query), lambda: self.checked(adapter))

    def most_together(self, queries: Iterable[Query]) -> int:
        """Count the first of these queries whose adapters can be ready at once, at least one."""
        return self.served.most_together((self.key(query), query.adapter) for query in queries)

    def key(self, query: Query) -> str:
        """Return the key of a query's adapter among those that are ready."""
        if query.adapter is not None:
            return f"{query.owner}/{query.adapter.id}"
        return f"{query.owner}/start/{tuple(query.labels)!r}"

    def starting_adapter(self, labels: Sequence[str]) -> Generator[None, None, Adapter]:
        """Make the adapter of a label set without any training, some labels a tick."""
        tensors = yield from label_tensors(
            self._phase, base=self._base.module, size=self._batch_size, labels=labels
        )
        return Adapter(
            tensors=moved(tensors, _CPU),
            labels=tuple(labels),
            method="start",
            base=self._base.digest,
        )

    def checked(self, adapter: Adapter) -> Adapter:
        """Return the adapter if it fits this base (else WeightsError)."""
        check_fits(
            adapter,
            base=self._base.digest,
            template=self._base.template,
            head=self._phase.task.head,
        )
        return adapter


def _served(base: LoadedBase, settings: RunnerSettings) -> ServedAdapters:
    device = base.precision.device
    own_memory = share_of(device_memory(device), settings.memory_share)
    most_bytes = settings.served_adapter_bytes or own_memory // _PART_OF_DEVICE
    return ServedAdapters(
        template=base.template,
        precision=base.precision,
        limit=settings.served_adapters,
        most_bytes=most_bytes,
    )
