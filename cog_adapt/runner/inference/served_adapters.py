"""The adapters that are ready on the device, each as a module of its own. Model thread only."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from torch import nn

from cog_adapt.runner.modules.adapters import Adapter
from gradient_check.phases.precision import Precision
from gradient_check.phases.replicas import serving_replica


@dataclass(frozen=True, eq=False)
class ReadyModule:
    """A module ready to answer, with the label set of its head.

    Attributes:
        id: the adapter's.
        bytes: of its own tensors, and of its copies of the base's buffers.
        tensors: their names.
    """

    module: nn.Module
    labels: tuple[str, ...]
    id: str = ""
    bytes: int = 0
    tensors: tuple[str, ...] = ()

    @cached_property
    def parts(self) -> dict[str, nn.Module]:
        """The module's parts by name."""
        return dict(self.module.named_modules())


class ServedAdapters:
    """The adapters that are ready on the device (LRU).

    Args:
        template: the structure from which replicas are made.
        limit: how many are kept.
        most_bytes: of their tensors; the requested adapter is kept whatever its size.
    """

    def __init__(
        self, template: nn.Module, precision: Precision, limit: int, most_bytes: int
    ) -> None:
        self._template = template
        self._buffer_bytes = sum(buffer.nbytes for buffer in template.buffers())
        self._precision = precision
        self._limit = limit
        self._most_bytes = most_bytes
        self._served: OrderedDict[str, ReadyModule] = OrderedDict()
        self.bytes = 0
        self.hits = 0
        self.misses = 0

    def get(self, key: str, make: Callable[[], Adapter]) -> ReadyModule:
        """Return the module for `key`; `make` gives the adapter if the module is not ready yet."""
        if key in self._served:
            self.hits += 1
            self._served.move_to_end(key)
            return self._served[key]
        self.misses += 1
        adapter = make()
        tensors = {n: t.to(self._precision.device) for n, t in adapter.tensors.items()}
        size = adapter.nbytes + self._buffer_bytes
        while self._served and self._is_full(size):
            self._drop(next(iter(self._served)))
        replica = serving_replica(self._template, tensors, adapter.scales)
        self._served[key] = ReadyModule(
            module=replica, labels=adapter.labels, id=adapter.id, bytes=size, tensors=tuple(tensors)
        )
        self.bytes += size
        return self._served[key]

    def find(self, key: str) -> ReadyModule | None:
        """Return the module for `key` if it is ready; this counts as a use."""
        if key in self._served:
            self._served.move_to_end(key)
        return self._served.get(key)

    def __contains__(self, key: str) -> bool:
        """Return whether an adapter is ready."""
        return key in self._served

    def forget(self, adapter_id: str) -> None:
        """Drop an adapter, for all owners."""
        for key in [key for key, served in self._served.items() if served.id == adapter_id]:
            self._drop(key)

    def gauges(self) -> dict[str, float]:
        """Return numbers for a server's metrics."""
        return {
            "adapter_cache_entries": float(len(self)),
            "adapters_device_bytes": float(self.bytes),
            "adapters_device_hits": float(self.hits),
            "adapters_device_misses": float(self.misses),
        }

    def _is_full(self, more: int) -> bool:
        return len(self._served) >= self._limit or self.bytes + more > self._most_bytes

    def _drop(self, key: str) -> None:
        self.bytes -= self._served.pop(key).bytes

    def __len__(self) -> int:
        """Count the ready adapters."""
        return len(self._served)
