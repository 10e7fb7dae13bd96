"""Compiles the repeated blocks of a private replica, each alone (regional compilation).

Off unless COMPILE_BLOCKS=1, and never where equal bits are promised, since compiled code rounds
differently. No card has shown a gain yet (`docs/gpu.md`). Code is compiled once for a class of
blocks, for any length, so later replicas reuse it; a block that cannot be compiled runs uncompiled.
"""

import functools
import logging
from typing import Any

import torch
from torch import nn

from cog_adapt.runner.errors import SetupError
from gradient_check.phases.checkpointing import blocks
from gradient_check.phases.determinism import is_repeatable

BACKEND = "inductor"
_MOST_SHOWN = 200  # characters of the compiler's message
_log = logging.getLogger(__name__)


def may_compile(wanted: bool, device: torch.device) -> bool:
    """Return whether blocks are compiled.

    Raises:
        SetupError: the settings ask for both compiled blocks and equal bits.
    """
    if wanted and is_repeatable(device):
        raise SetupError(
            "COMPILE_BLOCKS is on, but compiled code does not keep the promise that the same seed "
            f"gives the same bits on {device}. Unset COMPILE_BLOCKS, or use CUDA without "
            "DETERMINISTIC=1."
        )
    return wanted


def compile_blocks(replica: nn.Module) -> int:
    """Compile the blocks of a replica at their first forward; return how many it has."""
    found = blocks(replica)
    for block in found:
        block.__class__ = _compiled(type(block))  # type: ignore[arg-type] # a class has a hash
    return len(found)


@functools.cache
def _compiled(kind: type[nn.Module]) -> type[nn.Module]:
    """Make a subclass of `kind` that runs compiled; no block refers to itself.

    `checkpointing` relies on that.
    """
    # the import takes seconds, so only callers of this function wait for it
    from torch._dynamo.exc import TorchDynamoException

    run = torch.compile(kind.forward, backend=BACKEND, dynamic=True)
    state = {"compiles": True}

    def forward(block: nn.Module, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        if state["compiles"]:
            try:
                return run(block, *args, **kwargs)
            except TorchDynamoException as error:
                state["compiles"] = False
                _log.warning(
                    "%s runs without torch.compile: %s. Unset COMPILE_BLOCKS to silence this.",
                    kind.__name__,
                    " ".join(str(error).split())[:_MOST_SHOWN],
                )
        return kind.forward(block, *args, **kwargs)

    return type(f"Compiled{kind.__name__}", (kind,), {"forward": forward})
