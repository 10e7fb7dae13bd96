"""The adapters that are ready on the device. Model thread only.

An adapter that answers alone does so by a module of its own, which is made then. In a forward that
it shares, its tensors and its head suffice.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from torch import Tensor, nn

from cog_adapt.runner.modules.adapters import Adapter
from gradient_check.phases.lora import LORA_A, LORA_B
from gradient_check.phases.precision import Precision
from gradient_check.phases.replicas import serving_part, serving_replica


@dataclass(frozen=True, eq=False)
class ReadyAdapter:
    """An adapter that is ready to answer, with the label set of its head.

    Attributes:
        template: the structure from which its module is made.
        id: the adapter's.
        bytes: of its own tensors, and of its copies of the base's buffers.
        tensors: on the device, by name.
        scales: of its LoRA pairs, by layer, if they differ from `lora.SCALE`.
    """

    template: nn.Module
    labels: tuple[str, ...]
    id: str = ""
    bytes: int = 0
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    scales: Mapping[str, float] = field(default_factory=dict)
    _parts: dict[str, nn.Module] = field(default_factory=dict, init=False)

    @cached_property
    def module(self) -> nn.Module:
        """The module that answers alone; made at the first use."""
        return serving_replica(self.template, self.tensors, self.scales)

    def part(self, place: str) -> nn.Module:
        """Return the module's part of that name; the rest of the module is made only if needed."""
        if place not in self._parts:
            part = serving_part(self.template, place, self.tensors, scales=self.scales)
            self._parts[place] = self.module.get_submodule(place) if part is None else part
        return self._parts[place]

    def pair(self, place: str) -> tuple[Tensor, Tensor] | None:
        """Return the LoRA pair of a layer: A (rank, in) and B (out, rank); None without one."""
        a, b = (self.tensors.get(f"{place}.{leaf}") for leaf in (LORA_A, LORA_B))
        return None if a is None or b is None else (a, b)


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
        self._served: OrderedDict[str, ReadyAdapter] = OrderedDict()
        self.bytes = 0
        self.hits = 0
        self.misses = 0

    def get(self, key: str, make: Callable[[], Adapter]) -> ReadyAdapter:
        """Return the adapter of `key`; `make` gives it if it is not ready yet."""
        if key in self._served:
            self.hits += 1
            self._served.move_to_end(key)
            return self._served[key]
        self.misses += 1
        adapter = make()
        tensors = {n: t.to(self._precision.device) for n, t in adapter.tensors.items()}
        size = self._size(adapter)
        while self._served and self._is_full(size):
            self._drop(next(iter(self._served)))
        self._served[key] = ReadyAdapter(
            template=self._template,
            labels=adapter.labels,
            id=adapter.id,
            bytes=size,
            tensors=tensors,
            scales=adapter.scales,
        )
        self.bytes += size
        return self._served[key]

    def find(self, key: str) -> ReadyAdapter | None:
        """Return the adapter of `key` if it is ready; this counts as a use."""
        if key in self._served:
            self._served.move_to_end(key)
        return self._served.get(key)

    def most_together(self, asked: Iterable[tuple[str, Adapter | None]]) -> int:
        """Count the first of these adapters that can be ready at once, at least one.

        Args:
            asked: keys, each with the adapter; None for one that is ready.
        """
        sizes: dict[str, int] = {}
        count = 0
        for key, adapter in asked:
            ready = self._served.get(key)
            sizes[key] = ready.bytes if ready else self._size(adapter) if adapter else 0
            too_many = len(sizes) > self._limit or sum(sizes.values()) > self._most_bytes
            if count and too_many:
                break
            count += 1
        return count

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

    def _size(self, adapter: Adapter) -> int:
        return adapter.nbytes + self._buffer_bytes

    def _is_full(self, more: int) -> bool:
        return len(self._served) >= self._limit or self.bytes + more > self._most_bytes

    def _drop(self, key: str) -> None:
        self.bytes -= self._served.pop(key).bytes

    def __len__(self) -> int:
        """Count the ready adapters."""
        return len(self._served)
