"""Which examples are held out, and which make up each step's batch; no state, only a seed."""

from collections.abc import Hashable, Sequence

import torch

from cog_adapt.runner.examples import Example
from cog_adapt.runner.randomness import generator

_FEWEST_TO_SPLIT = 5  # below, a label needs all its examples for training


def split(
    examples: Sequence[Example], share: float, seed: int
) -> tuple[list[Example], list[Example]]:
    """Divide examples into those to train on and those held out, label by label.

    A label with five or more examples gives `share` of them, one at least; smaller ones, and
    targets that are no labels (unhashable ones count as one group), give by the same rule.
    """
    groups: dict[Hashable, list[int]] = {}
    for index, example in enumerate(examples):
        target = example.target
        groups.setdefault(target if isinstance(target, str | int) else "", []).append(index)
    held: set[int] = set()
    for number, indices in enumerate(groups.values()):
        if share > 0 and len(indices) >= _FEWEST_TO_SPLIT:
            order = torch.randperm(len(indices), generator=generator(seed, "hold out", number))
            held.update(indices[i] for i in order[: max(1, round(share * len(indices)))].tolist())
    train = [example for index, example in enumerate(examples) if index not in held]
    return train, [examples[index] for index in sorted(held)]


def batch_indices(count: int, size: int, step: int, seed: int) -> list[int]:
    """The examples of one step: slices of one endless row of shuffled epochs.

    Args:
        count: examples in all.
        size: examples in a batch, at most `count`.
        step: 0 for the first.
        seed: of the recipe.
    """
    chosen: list[int] = []
    position = step * size
    while len(chosen) < size:
        epoch, offset = divmod(position + len(chosen), count)
        order = torch.randperm(count, generator=generator(seed, "epoch", epoch)).tolist()
        chosen += order[offset : offset + size - len(chosen)]
    return chosen
