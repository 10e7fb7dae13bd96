"""Estimates an adaptation's peak memory before its first step. Model thread only.

The tensors that autograd saves for backward are counted in one forward of the longest examples,
without a backward, and remembered for each set of trained tensors: they are the same on every
device. A batch needs this for each row. This module takes no step.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from cog_adapt.runner.adaptation.start import (
    Start,
    StepRows,
    adamw,
    prepare_examples,
    weighted_loss,
)
from cog_adapt.runner.adaptation.step_parts import cost_of, limit_for, mixes_rows
from cog_adapt.runner.adaptation.trunk import MOST_BYTES, frozen_blocks
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.data.plain_values import characters_of
from cog_adapt.runner.devices.memory import in_words
from cog_adapt.runner.task.decoding import Decoded
from cog_adapt.runner.task.input_sizes import PAIR_CHARACTERS
from cog_adapt.runner.task.task import Batch, prepares
from gradient_check.phases.checkpointing import blocks
from gradient_check.phases.gradient_step import GradientStep
from gradient_check.phases.replicas import modules_in_training, training_replica

_MEASURED = 2  # examples in the measured batch: some models treat a batch of one differently
_MOST_REMEMBERED = 64
# times the values stored for backward: a layer's temporary values and gradients come on top
_TRANSIENT = 1.25
_COPIES = 3  # copies of the trained values: the first values, the present ones, and the result
_OPTIMIZER = 3  # values for each trained one: the gradient, and AdamW's two moments
_LEAST = 8 * 2**20  # bytes for the outputs of frozen layers, which are not stored


@dataclass(frozen=True)
class Needed:
    """The bytes that an adaptation needs at once.

    Attributes:
        parameters: bytes of the first, current, best and returned values of the trained tensors.
        optimizer: bytes of the gradients and of AdamW's moments.
        activations: bytes of the activations of a batch of `rows` examples.
        kept: bytes of the encoded examples, and of the outputs of frozen blocks.
        decoded: bytes of the examples' decoded inputs.
        rows: the number of examples in the largest batch.
    """

    work: ClassVar[str] = "adaptation"
    setting: ClassVar[str] = "ADAPTATION_MEMORY_BYTES"
    remedy: ClassVar[str] = (
        "Use a smaller batch_size or rank, fewer blocks, checkpointing, or shorter inputs."
    )

    parameters: int
    optimizer: int
    activations: int
    kept: int
    rows: int
    decoded: int = 0

    @property
    def bytes(self) -> int:
        """Return the sum."""
        return self.parameters + self.optimizer + self.activations + self.kept + self.decoded

    def __str__(self) -> str:
        return (
            f"{in_words(self.bytes)} ({in_words(self.parameters)} of parameters, "
            f"{in_words(self.optimizer)} of gradients and optimizer, "
            f"{in_words(self.activations)} of activations of {self.rows} examples at once, "
            f"{in_words(self.kept + self.decoded)} of kept examples)"
        )


@dataclass(frozen=True)
class Waiting:
    """Progress of work that waits for memory or for its turn; `words` say for which."""

    words: str


class _Row(NamedTuple):
    """The memory of one example.

    Attributes:
        numbers: in its encoded tensors.
        encoded: bytes of these.
        activations: bytes saved for backward.
        outputs: bytes of the last frozen block's output; 0 without one.
        decoded: bytes of its decoded input; 0 if the task decodes nothing.
        tokens: its size in a part of a step.
        mixes: whether it must be in one part with the others.
    """

    numbers: int
    encoded: int
    activations: int = 0
    outputs: int = 0
    tokens: int = 1
    mixes: bool = False
    decoded: int = 0


class MemoryEstimates:
    """Estimates adaptations of one model; remembers its measurements."""

    def __init__(self) -> None:
        self._measured: dict[Hashable, _Row] = {}

    def of(self, start: Start) -> Needed:
        """Return the memory of an adaptation with this start, `keep` and held-out rows included.

        The longest of its examples (`longest_of`) are decoded if the task decodes inputs.
        """
        row = self._row(start)
        count, recipe = len(start.data.examples), start.training.recipe
        rows = recipe.repeats * min(recipe.batch_size, count)
        if start.task.rows_are_independent and not row.mixes:
            most = limit_for(start.task, start.training.precision.device).tokens // row.tokens
            rows = min(rows, max(1, most))
        trained = 4 * sum(tensor.numel() for tensor in start.trained.tensors.values())
        copies = _COPIES + (recipe.hold_out > 0) + (_OPTIMIZER if start.resumption.keep else 0)
        if recipe.ema:  # the average; the values that wait while it is scored; its kept copy
            copies += 1 + (recipe.hold_out > 0) + (start.resumption.keep is not None)
        kept = sum(min(count * each, MOST_BYTES) for each in (row.encoded, row.outputs))
        return Needed(
            parameters=copies * trained,
            optimizer=_OPTIMIZER * trained,
            activations=_LEAST + int(_TRANSIENT * rows * row.activations),
            kept=kept,
            rows=rows,
            decoded=count * row.decoded,
        )

    def _row(self, start: Start) -> _Row:
        """Return the memory of the longest example; measure it if it is longer than any before."""
        examples = [start.data.examples[position] for position in longest_of(start.data.examples)]
        batch, targets = _encoded(start, examples)
        tensors = (*batch.values(), targets)
        numbers, encoded = (
            sum(size(tensor) for tensor in tensors) // len(examples)
            for size in (Tensor.numel, _bytes)
        )
        recipe = start.training.recipe
        key = (frozenset(start.trained.tensors), recipe.rank, recipe.checkpointing)
        known = self._measured.get(key)
        if known is None or known.numbers < numbers:
            rows = StepRows(
                batch=batch, targets=targets, weights=None, positions=tuple(range(len(examples)))
            )
            known = _measure(start, rows)._replace(numbers=numbers)
            self._remember(key, known)
        share = numbers / known.numbers  # a shorter example takes at most its share
        activations, outputs = int(known.activations * share), int(known.outputs * share)
        each = ({name: t[i] for name, t in batch.items()} for i in range(len(examples)))
        tokens = max(cost_of(one) for one in each)
        found = max(e.input.nbytes if isinstance(e.input, Decoded) else 0 for e in examples)
        return _Row(
            numbers=numbers,
            encoded=encoded,
            activations=activations,
            outputs=outputs,
            tokens=tokens,
            mixes=known.mixes,
            decoded=found,
        )

    def _remember(self, key: Hashable, row: _Row) -> None:
        while len(self._measured) >= _MOST_REMEMBERED:
            self._measured.pop(next(iter(self._measured)))
        self._measured[key] = row


def _encoded(start: Start, examples: Sequence[Example]) -> tuple[Batch, Tensor]:
    """Encode the longest examples; if a tick is too short for that, only the longest."""
    count = len(examples)
    are_short = sum(characters_of(each.input) for each in examples) <= PAIR_CHARACTERS
    if are_short and not prepares(start.task):
        return prepare_examples(start, examples)
    batch, targets = prepare_examples(start, examples[:1])
    return {name: torch.cat([t] * count) for name, t in batch.items()}, torch.cat([targets] * count)


def longest_of(examples: Sequence[Example]) -> list[int]:
    """Return the positions of the longest inputs, if inputs have a length."""

    def length(position: int) -> int:
        value = examples[position].input
        sent = value.sent if isinstance(value, Decoded) else value
        return len(sent) if hasattr(sent, "__len__") else 0

    return sorted(range(len(examples)), key=length, reverse=True)[:_MEASURED]


def _measure(start: Start, rows: StepRows) -> _Row:
    """Count the bytes for each row that one forward of a replica saves."""
    replica = training_replica(start.trained.template, start.trained.tensors, start.trained.scales)
    training = modules_in_training(replica)
    step = GradientStep(
        replica=replica,
        loss=weighted_loss(start.task),
        make_optimizer=adamw(start.training.recipe, start.training.learning_rate),
        precision=start.training.precision,
        training=training,
    )
    counted = _Counted(replica, start.task.blocks)
    with torch.autograd.graph.saved_tensors_hooks(counted.pack, lambda tensor: tensor):
        step.losses(rows, start.training.recipe.seed)
    count = len(rows.targets)
    kept = counted.recomputed if start.training.recipe.checkpointing else counted.whole
    mixes = mixes_rows(replica, training)
    return _Row(
        numbers=0,
        encoded=0,
        activations=-(-kept // count),
        outputs=-(-counted.outputs // count),
        mixes=mixes,
    )


class _Counted:
    """Counts the storages that autograd saves, by the block that runs.

    Attributes:
        outputs: bytes of the last frozen block's output.
    """

    def __init__(self, replica: nn.Module, pattern: str) -> None:
        self.outputs = 0
        self._inputs = 0
        self._own = {_place(t) for t in (*replica.parameters(), *replica.buffers())}
        self._kept: dict[int, dict[int, int]] = {}
        self._running = -1
        for number, block in enumerate(blocks(replica)):
            block.register_forward_pre_hook(self._begin(number), with_kwargs=True)
            block.register_forward_hook(self._end)
        for block in frozen_blocks(replica, pattern)[-1:]:
            block.register_forward_hook(self._see)

    @property
    def whole(self) -> int:
        """Return the saved bytes."""
        places: dict[int, int] = {}
        for kept in self._kept.values():
            places |= kept
        return sum(places.values())

    @property
    def recomputed(self) -> int:
        """Return the saved bytes if blocks are recomputed one after the other."""
        insides = {number: sum(kept.values()) for number, kept in self._kept.items()}
        outside = insides.pop(-1, 0)
        return outside + self._inputs + max(insides.values(), default=0)

    def pack(self, tensor: Tensor) -> Tensor:
        place = _place(tensor)
        if place not in self._own:
            size = tensor.untyped_storage().nbytes()
            self._kept.setdefault(self._running, {})[place] = size
        # a tensor with a graph would keep the graph, and so itself, alive for ever
        return tensor.detach()

    def _begin(self, number: int) -> Any:  # noqa: ANN401 - a hook
        def begin(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            self._running = number
            given = (*args, *kwargs.values())
            self._inputs += sum(_bytes(each) for each in given if isinstance(each, Tensor))

        return begin

    def _end(self, *_: object) -> None:
        self._running = -1

    def _see(self, _: nn.Module, __: object, output: Any) -> None:  # noqa: ANN401 - any output
        found = output if isinstance(output, (tuple, list)) else (output,)
        self.outputs = sum(_bytes(each) for each in found if isinstance(each, Tensor))


def _place(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _bytes(tensor: Tensor) -> int:
    return tensor.nbytes
