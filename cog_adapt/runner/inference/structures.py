"""Which adapters can share a forward: those of one structure. This module knows no query."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor, nn

from gradient_check.phases.lora import LORA_A, LORA_B, SCALE


@dataclass(frozen=True)
class Structure:
    """The properties that rows must have in common to share a forward.

    Attributes:
        pairs: name, rank and scale of each layer with a LoRA pair.
        head: the module that each row has of its own; "" without one.
    """

    pairs: tuple[tuple[str, int, float], ...]
    head: str

    def joined(self, other: "Structure") -> "Structure | None":
        """Return the structure that serves both, or None; rows without pairs fit any."""
        if self.head != other.head:
            return None
        if self.pairs and other.pairs and self.pairs != other.pairs:
            return None
        return self if self.pairs else other


class Adapted(Protocol):
    """An adapter, wherever its tensors are."""

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """Its tensors by name."""

    @property
    def scales(self) -> Mapping[str, float]:
        """The scales of its LoRA pairs, by layer, if they differ from `lora.SCALE`."""


class Structures:
    """Finds the structure of adapters.

    Args:
        template: the model's structure.
        head: full-match regex of the tensors that have a row for each label (`Task.head`).
    """

    def __init__(self, template: nn.Module, head: str) -> None:
        self._linear = {name for name, part in template.named_modules() if type(part) is nn.Linear}
        self._tied = _tied(template)
        self._head = re.compile(head)

    def of(self, adapter: Adapted) -> Structure | None:
        """Return the structure of an adapter, checked or not; None if it can only run alone.

        Pairs on `nn.Linear` and at most one head can be shared: the module with the tensors whose
        names match the regex. An adapter that replaces any other tensor runs alone.
        """
        adapted = {place for place in map(self._adapted_layer, adapter.tensors) if place}
        ranks = {place: _rank(adapter, place) for place in adapted}
        others = [name for name in adapter.tensors if not self._adapted_layer(name)]
        heads = {name.rpartition(".")[0] for name in others}
        tops = [place for place in heads if not any(place.startswith(f"{top}.") for top in heads)]
        if len(tops) > 1 or not all(map(self._is_of_head, others)):
            return None
        pairs = [
            (place, rank, adapter.scales.get(place, SCALE))
            for place, rank in sorted(ranks.items())
            if rank is not None
        ]
        return Structure(tuple(pairs), "".join(tops)) if len(pairs) == len(ranks) else None

    def _adapted_layer(self, name: str) -> str:
        """Return the linear layer to whose pair a tensor belongs; "" if to none."""
        place, _, leaf = name.rpartition(".")
        return place if leaf in (LORA_A, LORA_B) and place in self._linear else ""

    def _is_of_head(self, name: str) -> bool:
        inner = "." in name and self._head.fullmatch(name) is not None
        return inner and name not in self._tied


def _rank(adapter: Adapted, place: str) -> int | None:
    """Return the rank of a layer's pair; None if the pair lacks a half, or one is no matrix."""
    halves = [adapter.tensors.get(f"{place}.{leaf}") for leaf in (LORA_A, LORA_B)]
    a, b = (None if half is None or half.dim() != 2 else half for half in halves)
    return None if a is None or b is None else len(a)


def _tied(module: nn.Module) -> set[str]:
    """Return the names of parameters that several modules share."""
    names: dict[int, list[str]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return {name for same in names.values() if len(same) > 1 for name in same}
