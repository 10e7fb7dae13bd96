"""Gradient checkpointing of a replica's blocks: recompute in backward, keep fewer activations.

Always non-reentrant: the reentrant form gives a block no gradient where its inputs need none,
with no more than a warning.
"""

import functools

from torch import nn
from torch.utils.checkpoint import checkpoint

from runner.errors import InputError


def blocks(module: nn.Module) -> list[nn.Module]:
    """The repeated blocks: the children of the longest `ModuleList` or `Sequential`."""
    lists = [m for m in module.modules() if isinstance(m, nn.ModuleList | nn.Sequential)]
    longest = max(lists, key=len, default=None)
    return list(longest) if longest is not None and len(longest) > 1 else []


def recompute_blocks(replica: nn.Module) -> None:
    """Make every block of a private replica recompute its activations in backward.

    Raises:
        InputError: the model has no blocks.
    """
    found = blocks(replica)
    if not found:
        raise InputError(
            f"checkpointing is on, but {type(replica).__name__} has no ModuleList or Sequential "
            "of two or more blocks. Turn it off for this model."
        )
    for block in found:
        recomputed = functools.partial(checkpoint, block.forward, use_reentrant=False)
        block.forward = recomputed
