"""The frozen trunk: the part before the first trained block runs once for each example.

A step then starts from the stored outputs, with the same gradients: to the bit if a batch has the
same shape, else to float32 rounding. Whether a model fits is found by trial on a replica of its
own: the trunk must need no gradient and no random number, run once, and give the same losses from
stored outputs. Texts on a CPU, the last of 6 blocks trained: a step takes 0.34 of the time; the
head alone of an EfficientNet: 0.02.
"""

import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from cog_adapt.runner.adaptation.batches import used_positions
from cog_adapt.runner.adaptation.encoded import EncodedExamples
from cog_adapt.runner.adaptation.kept_outputs import (
    KeptOutputs,
    UnfitTrunkError,
    only_tensor,
    recall,
)
from cog_adapt.runner.adaptation.start import StepRows
from cog_adapt.runner.adaptation.step_parts import FORWARD_ALONE
from cog_adapt.runner.config import Recipe
from gradient_check.phases.gradient_step import GradientStep
from gradient_check.phases.randomness import random_state, seeded

MOST_BYTES = 256 * 2**20  # of stored outputs
_BATCHES_IN_A_BUDGET = 8  # a run with a time budget must not spend all of it on the trunk
_EXACT = 1e-4  # tolerance of a loss in float32
_ROUGH = 3e-2  # tolerance in 16 bits, whose rounding depends on the padding
_SEED = 0


class TrunkKept(NamedTuple):
    """The stored outputs, or None, and a line for the report ("" if there is nothing to say)."""

    outputs: KeptOutputs | None
    line: str


def frozen_blocks(replica: nn.Module, pattern: str) -> list[nn.Module]:
    """Return the blocks that `pattern` names, in order, up to the first with a trained tensor."""
    blocks = [part for name, part in replica.named_modules() if re.fullmatch(pattern, name)]
    trained = (any(p.requires_grad for p in block.parameters()) for block in blocks)
    return blocks[: next((number for number, each in enumerate(trained) if each), len(blocks))]


def relief_of(replica: nn.Module, pattern: str) -> float:
    """Return a token's full cost, divided by the token's cost with stored trunk outputs.

    The layers around the blocks count as one further block.
    """
    blocks = sum(re.fullmatch(pattern, name) is not None for name, _ in replica.named_modules())
    return (1 + blocks) / (1 + blocks - len(frozen_blocks(replica, pattern)))


def trunk_positions(recipe: Recipe, train: Sequence[int], held_out: Sequence[int]) -> list[int]:
    """Return the examples whose outputs a run needs; none if storing them would not pay."""
    size = min(recipe.batch_size, len(train))
    used = used_positions(len(train), size=size, steps=recipe.max_steps, seed=recipe.seed)
    in_time = recipe.budget_seconds is None or len(used) <= _BATCHES_IN_A_BUDGET * size
    if not in_time or recipe.max_steps * size < 2 * len(used):
        return []
    return [train[index] for index in used] + [*held_out]


def keep_trunk(
    spare: GradientStep,
    examples: EncodedExamples,
    chosen: Sequence[int],
    pattern: str,
    most_bytes: int = MOST_BYTES,
) -> Generator[None, None, TrunkKept]:
    """Run the trunk once for each of the chosen examples, a batch a tick.

    Args:
        spare: a step whose replica may be used up.
        examples: those of the run.
        chosen: positions of examples.
        pattern: the task's `blocks`.
        most_bytes: larger outputs are not stored.
    """
    blocks = frozen_blocks(spare.replica, pattern)
    if not blocks or not chosen:
        return TrunkKept(None, "")
    yield from _encoded(examples, chosen)
    try:
        order = _by_length(examples, chosen)
        tried = _tried(order, spare.precision.compute)
        rows = _rows(examples, tried)
        with _watched(blocks[-1], kept=KeptOutputs(), lengths=None, spare=spare):
            expected = spare.losses(rows, _SEED)
        yield None
        kept = yield from _filled(
            spare, block=blocks[-1], examples=examples, order=order, most_bytes=most_bytes
        )
        recall(blocks, kept)
        _compare(expected, _recalled_losses(spare, rows), spare.precision.compute)
    except UnfitTrunkError as error:
        return TrunkKept(None, f"no outputs are kept: {error}")
    return TrunkKept(kept, f"{len(blocks)} frozen blocks ran once for each example")


def _rows(examples: EncodedExamples, chosen: Sequence[int]) -> StepRows:
    if not examples.fits_a_tick(chosen):
        raise UnfitTrunkError("the examples are too long to be compared in one tick")
    return examples.rows(chosen)


def _encoded(examples: EncodedExamples, chosen: Sequence[int]) -> Generator[None, None, None]:
    """Encode the examples, a batch a tick, and learn their padding."""
    yield from examples.encoding(chosen, examples.start.training.recipe.batch_size)
    yield from examples.comparing(chosen)
    examples.store.compare_lengths(chosen)


def _by_length(examples: EncodedExamples, chosen: Sequence[int]) -> list[int]:
    """Return the positions, texts of similar length together, always in the same order."""
    lengths = examples.store.lengths(chosen) or [0] * len(chosen)
    return [position for _, position in sorted(zip(lengths, chosen, strict=True))]


def _tried(order: Sequence[int], compute: torch.dtype) -> list[int]:
    """Return positions from the shortest to the longest: a padding that no stored batch has.

    In 16 bits they are eight, since rounding hides more.
    """
    last = (2 if compute is torch.float32 else 8) - 1
    return list(dict.fromkeys(order[place * (len(order) - 1) // last] for place in range(last + 1)))


def _filled(
    spare: GradientStep,
    block: nn.Module,
    examples: EncodedExamples,
    order: Sequence[int],
    most_bytes: int,
) -> Generator[None, None, KeptOutputs]:
    """Store the block's outputs, a batch at a time."""
    kept = KeptOutputs(left=examples.store.pads_left)
    lengths = examples.store.lengths(order)
    own = None if lengths is None else dict(zip(order, lengths, strict=True))
    size = examples.start.training.recipe.batch_size
    batches = [order[first : first + size] for first in range(0, len(order), size)]
    for group in [group for batch in batches for group in examples.groups(batch, FORWARD_ALONE)]:
        with _watched(block, kept=kept, lengths=own, spare=spare):
            spare.losses(examples.rows(group), _SEED)
        if kept.bytes > most_bytes:
            raise UnfitTrunkError(
                f"those of {len(kept.places)} of {len(order)} examples have {kept.bytes:,} bytes; "
                f"the limit is {most_bytes:,}"
            )
        yield None
    kept.seal()
    return kept


@contextmanager
def _watched(
    block: nn.Module, kept: KeptOutputs, lengths: dict[int, int] | None, spare: GradientStep
) -> Iterator[None]:
    """Store the block's return values, and refuse a trunk whose values differ between steps."""
    device = spare.precision.device
    with seeded(_SEED, device):
        fresh = random_state(device)

    def keep(_: nn.Module, inputs: Any, output: Any) -> None:  # noqa: ANN401
        if only_tensor(output).requires_grad:
            raise UnfitTrunkError("something before the last frozen block is trained")
        if not kept.places and not _equal(fresh, random_state(device)):
            raise UnfitTrunkError("something before the last frozen block draws random numbers")
        kept.add(output, lengths)

    handle = block.register_forward_hook(keep)
    try:
        yield
    finally:
        handle.remove()
    if not kept.places:
        raise UnfitTrunkError("the last frozen block does not run")


def _equal(one: Sequence[Tensor], other: Sequence[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def _recalled_losses(spare: GradientStep, rows: StepRows) -> Tensor:
    try:
        return spare.losses(rows, _SEED)
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, TypeError, ValueError, LookupError, AttributeError) as error:
        raise UnfitTrunkError(f"without its frozen blocks the model fails: {error}") from error


def _compare(expected: Tensor, found: Tensor, compute: torch.dtype) -> None:
    limit = _ROUGH if compute is not torch.float32 else _EXACT
    if not torch.allclose(expected, found, rtol=limit, atol=limit):
        far = (expected - found).abs().max().item()
        raise UnfitTrunkError(f"with them a loss differs by {far:.2g}; the limit is {limit:g}")
