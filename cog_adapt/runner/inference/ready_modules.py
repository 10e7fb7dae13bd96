"""Finds or makes the module that answers a query. Model thread only."""

from collections.abc import Generator, Sequence

import torch

from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.inference.answers import Phase, Query
from cog_adapt.runner.inference.label_tensors import finished, label_tensors
from cog_adapt.runner.inference.served_adapters import ReadyModule, ServedAdapters
from cog_adapt.runner.modules.adapter_fit import check_fits
from cog_adapt.runner.modules.adapters import Adapter
from cog_adapt.runner.modules.loaded_base import LoadedBase, moved
from cog_adapt.shared_settings import share_of
from gradient_check.phases.memory import device_memory

_PART_OF_DEVICE = 8  # an eighth of the device's memory caches adapters that are ready
_CPU = torch.device("cpu")


class ReadyModules:
    """The modules that answer queries: of adapters, and of the base with a label set."""

    def __init__(self, phase: Phase, base: LoadedBase, settings: RunnerSettings) -> None:
        self._phase = phase
        self._base = base
        self._batch_size = settings.batch_size
        self.served = _served(base, settings)

    def ready(self, query: Query) -> ReadyModule | None:
        """Return the module that answers a query; None if it is not ready or not allowed."""
        return None if self._base.damage else self.served.find(_key(query))

    def serving(self, query: Query) -> Generator[None, None, ReadyModule]:
        """Prepare the module that answers a query, some labels a tick."""
        self._base.refuse_when_damaged()
        adapter, key = query.adapter, _key(query)
        if adapter is not None:
            return self.served.get(key, lambda: self.checked(adapter))
        if key not in self.served:
            made = yield from self.starting_adapter(query.labels)
            return self.served.get(key, lambda: made)
        return self.served.get(key, lambda: finished(self.starting_adapter(query.labels)))

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


def _key(query: Query) -> str:
    if query.adapter is not None:
        return f"{query.owner}/{query.adapter.id}"
    return f"{query.owner}/start/{tuple(query.labels)!r}"


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
