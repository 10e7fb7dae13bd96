"""A replica whose forward serves rows of several adapters at once.

Its layers take the pair of each row's adapter (`torch.bmm` over pairs stacked on a slot axis), and
its head the head of each row's. Stacks live for one forward and are made of the tensors of
`ServedAdapters`, so an adapter that goes from there has left no other copy. A row meets no tensor
of another's adapter: values that are not finite stay where they are. This module knows no task
and no request.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cog_adapt.runner.inference.served_adapters import Served
from cog_adapt.runner.modules.batch_rows import holders_of
from cog_adapt.runner.modules.lora import LORA_A, LORA_B, LoRALinear
from cog_adapt.runner.modules.replicas import freeze, serving_replica


@dataclass(frozen=True)
class Structure:
    """What rows must have in common to share a forward.

    Attributes:
        pairs: of each layer with a LoRA pair: its name, the rank and the scale.
        head: the module that each row has of its own; "" where it has none.
    """

    pairs: tuple[tuple[str, int, float], ...]
    head: str

    def joined(self, other: "Structure") -> "Structure | None":
        """Return the structure that serves both; rows without pairs fit any. None: none does."""
        if self.head != other.head:
            return None
        if self.pairs and other.pairs and self.pairs != other.pairs:
            return None
        return self if self.pairs else other


def structure_of(template: nn.Module, served: Served, head: str) -> Structure | None:
    """Return the structure of a module that is ready; None where it can only run alone.

    Shared are pairs on `nn.Linear`, and at most one head: the module that holds the tensors whose
    names `head` (a regex) matches. Whatever else an adapter replaces is the whole module's.
    """
    pairs, heads = set(), set()
    for name in served.tensors:
        place, _, leaf = name.rpartition(".")
        layer = served.parts.get(place)
        if leaf in (LORA_A, LORA_B) and type(layer) is LoRALinear:
            pairs.add((place, layer.lora_a.shape[0], layer.lora_scale))
        elif place and re.fullmatch(head, name) and name not in _tied(template):
            heads.add(place)
        else:
            return None
    tops = [place for place in heads if not any(place.startswith(f"{top}.") for top in heads)]
    return Structure(tuple(sorted(pairs)), "".join(tops)) if len(tops) <= 1 else None


def _tied(module: nn.Module) -> set[str]:
    """Return the names of parameters that other places share."""
    names: dict[int, list[str]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return {name for same in names.values() if len(same) > 1 for name in same}


def stacked_replica(template: nn.Module, structure: Structure) -> nn.Module:
    """Make the replica that serves a structure; its frozen tensors share the base's storage."""
    replica = serving_replica(template, {})
    for place, rank, scale in structure.pairs:
        layer = replica.get_submodule(place)
        layer.__class__ = StackedLinear
        layer.place, layer.rank, layer.scale = place, rank, scale  # type: ignore[assignment]
    if structure.head:
        owner, _, leaf = structure.head.rpartition(".")
        setattr(replica.get_submodule(owner), leaf, StackedHead(structure.head))
    freeze(replica)
    return replica


class StackedLinear(nn.Linear):
    """`LoRALinear`, with the pair of each row's adapter."""

    place: str
    rank: int
    scale: float

    def forward(self, input: Tensor) -> Tensor:
        """Map shape (N, ..., in) to (N, ..., out)."""
        frozen = super().forward(input)
        layers = [served.parts[self.place] for served in holders_of(len(input))]
        if not any(type(layer) is LoRALinear for layer in layers):
            return frozen
        a, b = self._stacked(layers, LORA_A), self._stacked(layers, LORA_B)
        rows = input.to(a.dtype).reshape(len(input), -1, self.in_features)
        low = torch.bmm(rows, a.transpose(1, 2))
        high = torch.bmm(low, b.transpose(1, 2)) * self.scale
        return frozen + high.to(frozen.dtype).view_as(frozen)

    def _stacked(self, layers: Sequence[nn.Module], leaf: str) -> Tensor:
        """Return the tensors of each row's pair (N, ..., ...); zeros where it has none."""
        found = [getattr(layer, leaf, None) for layer in layers]
        none = next(tensor for tensor in found if tensor is not None).new_zeros(())
        shape = (self.rank, self.in_features) if leaf == LORA_A else (self.out_features, self.rank)
        zeros = none.expand(shape)
        return torch.stack([zeros if tensor is None else tensor for tensor in found])


class StackedHead(nn.Module):
    """The head of each row's adapter, one after the other, padded to the widest.

    Attributes:
        widths: labels of each adapter in the latest forward, by the `id` of its `Served`.
    """

    def __init__(self, place: str) -> None:
        super().__init__()
        self.place = place
        self.widths: dict[int, int] = {}

    def forward(self, input: Tensor) -> Tensor:
        """Map shape (N, ...) to (N, ..., labels); rows with fewer labels end in zeros."""
        rows_of: dict[int, list[int]] = {}
        holders = holders_of(len(input))
        for row, served in enumerate(holders):
            rows_of.setdefault(id(served), []).append(row)
        groups = [torch.tensor(rows, device=input.device) for rows in rows_of.values()]
        outputs = [
            holders[rows[0]].parts[self.place](input[group])
            for rows, group in zip(rows_of.values(), groups, strict=True)
        ]
        self.widths = {key: out.shape[-1] for key, out in zip(rows_of, outputs, strict=True)}
        widest = max(self.widths.values())
        padded = [F.pad(output, (0, widest - output.shape[-1])) for output in outputs]
        return torch.cat(padded)[torch.cat(groups).argsort()]
