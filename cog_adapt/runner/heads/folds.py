"""Divides examples into folds, so that each is answered once by a model that has not seen it."""

from collections.abc import Hashable, Sequence

import torch
from torch import Tensor

from gradient_check.phases.randomness import generator

FOLDS = 2
_FEWEST = 8  # an estimate from fewer answers says nothing


def folds(
    targets: Sequence[Hashable], seed: int, count: int = FOLDS
) -> list[tuple[Tensor, Tensor]]:
    """Return the positions to train on and to answer, for each fold; none for too few examples.

    Each label is spread over the folds. The single example of a label is trained on in every fold
    and never answered.
    """
    groups: dict[Hashable, list[int]] = {}
    for position, target in enumerate(targets):
        groups.setdefault(target, []).append(position)
    place = torch.full((len(targets),), -1, dtype=torch.int64)
    begin = 0
    for number, positions in enumerate(groups.values()):
        if len(positions) < 2:
            continue
        order = torch.randperm(len(positions), generator=generator(seed, "folds", number))
        place[torch.tensor(positions)[order]] = (torch.arange(len(positions)) + begin) % count
        begin += len(positions)  # so that odd counts are spread over the folds
    if int((place >= 0).sum()) < max(_FEWEST, 2 * count):
        return []
    parts = [(place == fold).nonzero()[:, 0] for fold in range(count)]
    return [
        ((place != fold).nonzero()[:, 0], parts[fold]) for fold in range(count) if len(parts[fold])
    ]
