"""Gradient checkpointing of a replica's blocks: backward recomputes activations to save memory.

Always non-reentrant: the reentrant form gives a block no gradient if its inputs need none, and
only warns.
"""

from itertools import chain
from typing import Any

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from gradient_check.phases.errors import InputError


def blocks(module: nn.Module) -> list[nn.Module]:
    """Return the repeated blocks: the children of the longest `ModuleList` or `Sequential`.

    If some lists have trained parameters, only those count: an encoder that is frozen may have more
    blocks than what is trained. Lists beside the longest count if all their children have parts.
    """
    lists = [m for m in module.modules() if isinstance(m, nn.ModuleList | nn.Sequential)]
    lists = sorted((each for each in lists if len(each) > 1), key=len, reverse=True)
    found, taken = list[nn.Module](), set[nn.Module]()
    for each in [each for each in lists if _is_trained(each)] or lists[:1]:
        has_parts = all(next(child.children(), None) is not None for child in each)
        if taken.isdisjoint(each.modules()) and (has_parts or not found):
            found += each
            taken.update(each.modules())
    return found


def _is_trained(module: nn.Module) -> bool:
    return any(parameter.requires_grad for parameter in module.parameters())


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
        block.__class__ = _recomputing(type(block))


def _recomputing(kind: type[nn.Module]) -> type[nn.Module]:
    """Make a subclass of `kind` that recomputes.

    A wrapped method would make the block refer to itself; then only the garbage collector could
    free a dropped replica's memory.
    """

    def forward(block: nn.Module, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        def run(args: Any, kwargs: Any, _: object) -> Any:  # noqa: ANN401
            return kind.forward(block, *args, **kwargs)

        # by position: PyTorch preserves random streams only of devices among these arguments
        return checkpoint(run, args, kwargs, _place_of(block), use_reentrant=False)

    return type(f"Recomputed{kind.__name__}", (kind,), {"forward": forward})


def _place_of(block: nn.Module) -> Tensor | None:
    """Return a tensor on the block's device, from inputs of any structure."""
    return next(chain(block.parameters(), block.buffers()), None)
