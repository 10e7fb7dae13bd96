"""Chooses the held-out examples and each step's batch, by seed alone, without state."""

from collections.abc import Hashable, Sequence

import torch

from cog_adapt.runner.data.examples import Example
from gradient_check.phases.randomness import generator

_FEWEST_TO_SPLIT = 5  # a label with fewer examples needs all of them for training


def split(examples: Sequence[Example], share: float, seed: int) -> tuple[list[int], list[int]]:
    """Return the positions of the examples to train on and of those held out, label by label.

    A label with five or more examples gives `share` of these examples, at least one; a label with
    fewer examples gives none. Examples whose targets are numbers or other values form one group
    under the same rule.
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
    return [index for index in range(len(examples)) if index not in held], sorted(held)


def batch_indices(count: int, size: int, step: int, seed: int) -> list[int]:
    """Return the indices of one step's examples: a slice of an endless sequence of shuffled epochs.

    Args:
        count: number of examples.
        size: number of examples in a batch, at most `count`.
        step: number of the step, from 0.
        seed: seed of the recipe.
    """
    chosen: list[int] = []
    position = step * size
    while len(chosen) < size:
        epoch, offset = divmod(position + len(chosen), count)
        order = torch.randperm(count, generator=generator(seed, "epoch", epoch)).tolist()
        chosen += order[offset : offset + size - len(chosen)]
    return chosen


def used_positions(count: int, size: int, steps: int, seed: int) -> list[int]:
    """Return the indices in the first `steps` batches, each once, in order."""
    if steps * size >= count:
        return list(range(count))
    return sorted(batch_indices(count, size=steps * size, step=0, seed=seed))
