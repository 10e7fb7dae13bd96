"""Finds the first call of two recorded forwards with other values for the same inputs."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from gradient_check.findings.report import NOWHERE, Place
from gradient_check.instruments.recording import Recorder


def first_difference(earlier: Recorder, later: Recorder, names: Mapping[int, str]) -> Place:
    """Return the place of that call in the later forward; no place if the two agree.

    Args:
        earlier: the record of one forward.
        later: the record of another forward at the same values and inputs.
        names: the names of modules, by their ids.
    """
    own = dict(names)
    for one, other in zip(earlier.events, later.events, strict=False):
        if one.name != other.name or one.stack.position != other.stack.position:
            return other.place(own)
        if _same(one.inputs, other.inputs) and not _same(one.outputs, other.outputs):
            return other.place(own)
    return NOWHERE


def _same(some_tensors: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    pairs = zip(some_tensors, others, strict=False)
    return len(some_tensors) == len(others) and all(
        a.shape == b.shape and torch.equal(a.detach(), b.detach()) for a, b in pairs
    )
