"""The groups of parameters whose gradients are compared together with the slope of the loss."""

import itertools

from gradient_check.instruments import differences
from gradient_check.instruments.differences import Limits
from gradient_check.instruments.selection import group_by_block
from gradient_check.instruments.subject import Subject

_MOST_BLOCKS, _MOST_OF_LARGE = 16, 8
_SECONDS = 0.3  # limit of the time for testing each parameter on its own


def grouped(subject: Subject, limits: Limits, forward_seconds: float) -> dict[str, list[str]]:
    """Group the parameters by block within portions, or one by one if that is quick."""
    portions = subject.held_first()
    if limits is differences.FLOAT32 and 2 * len(subject.names) * forward_seconds < _SECONDS:
        return {name: [name] for portion in portions for name in portion}
    groups: dict[str, list[str]] = {}
    most = (_MOST_OF_LARGE if subject.is_large else _MOST_BLOCKS) // len(portions)
    for portion in portions:
        own = _merged(group_by_block(subject.replica, portion), most)
        for block, names in own.items():
            groups.setdefault(block, []).extend(names)
    return groups


def _merged(groups: dict[str, list[str]], most: int) -> dict[str, list[str]]:
    """Merge neighbouring groups, so that a deep model has a bounded number of similar length."""
    names = list(groups)
    count = -(-len(names) // -(-len(names) // most))
    bounds = [-(-number * len(names) // count) for number in range(count + 1)]
    chunks = [names[first:end] for first, end in itertools.pairwise(bounds)]
    return {
        chunk[0] if len(chunk) == 1 else f"{chunk[0]} to {chunk[-1]}": [
            parameter for name in chunk for parameter in groups[name]
        ]
        for chunk in chunks
    }
