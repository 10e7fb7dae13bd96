"""An adapter for one request: its LoRA pairs scaled, and those of a second adapter added."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from cog_adapt.runner.modules.adapters import Adapter
from gradient_check.phases.lora import LORA_A, LORA_B, SCALE


@dataclass(frozen=True)
class BlendedAdapter(Adapter):
    """An adapter that is kept nowhere.

    Attributes:
        sources: what it was made of, as text; the same sources make the same adapter.
    """

    sources: str = ""

    @cached_property
    def id(self) -> str:
        """Sixteen hex digits of the sources: the tensors need not be read."""
        return hashlib.sha256(self.sources.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Blend:
    """How strongly the LoRA pairs of two adapters count.

    Attributes:
        scale: of the adapter that answers.
        extra: a second adapter of the same base; its other tensors, such as a head, are left out.
        extra_scale: of the second adapter.
    """

    scale: float = 1.0
    extra: Adapter | None = None
    extra_scale: float = 1.0

    def of(self, adapter: Adapter | None) -> Adapter | None:
        """Return what answers in an adapter's place; the base stays the base."""
        has_pairs = adapter is not None and adapter.rank is not None
        if adapter is None or (self.extra is None and (self.scale == 1 or not has_pairs)):
            return adapter
        scales = {path: scale * self.scale for path, scale in adapter.pair_scales.items()}
        joined = self._joined(adapter, scales)
        scales |= dict.fromkeys((name.rpartition(".")[0] for name in joined), 1.0)
        return BlendedAdapter(
            tensors={**adapter.tensors, **joined},
            labels=adapter.labels,
            method=adapter.method,
            base=adapter.base,
            scales={path: scale for path, scale in scales.items() if scale != SCALE},
            sources=self._sources(adapter),
        )

    def _joined(self, adapter: Adapter, scales: Mapping[str, float]) -> dict[str, Tensor]:
        """Return the pairs of the second adapter's layers, with the first one's; their scale is 1.

        Args:
            adapter: the first one.
            scales: of its pairs, by layer.
        """
        found: dict[str, Tensor] = {}
        if self.extra is None:
            return found
        for path, scale in self.extra.pair_scales.items():
            a, b = f"{path}.{LORA_A}", f"{path}.{LORA_B}"
            found[a] = self.extra.tensors[a] * (scale * self.extra_scale)
            found[b] = self.extra.tensors[b]
            if path in scales:
                found[a] = torch.cat([adapter.tensors[a] * scales[path], found[a]])
                found[b] = torch.cat([adapter.tensors[b], found[b]], 1)
        return found

    def _sources(self, adapter: Adapter) -> str:
        extra = self.extra.id if self.extra else None
        return json.dumps([adapter.id, self.scale, extra, self.extra_scale])
