"""The tensors of a label set before any training, a portion of the labels a tick.

A thousand long names in one forward take minutes, in which no other request would be answered.
"""

from collections.abc import Generator, Iterator, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn

from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.data.plain_values import characters_of
from cog_adapt.runner.inference.answers import Phase
from cog_adapt.runner.task.task import Task
from gradient_check.phases.modes import run_inference

T = TypeVar("T")
# Characters of the label names of a tick, which also run through the model: about 450 tokens, for
# which MiniLM takes 80 ms of one core. 32 names of 64 characters still are one forward.
_TICK_CHARACTERS = 2_048


def label_tensors(
    phase: Phase,
    base: nn.Module,
    size: int,
    labels: Sequence[str],
    examples: Sequence[Example] = (),
) -> Generator[None, None, dict[str, Tensor]]:
    """Get the tensors of a label set from the task, at most `size` labels a tick."""
    parts: list[dict[str, Tensor]] = []
    for some in _portions(labels, size):
        if parts:
            yield None
        task, how = phase.task, (phase.precision, phase.serve_mode)
        parts.append(run_inference(_start, base, *how, task, some, examples))
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def _portions(labels: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """Yield the labels in equal portions: a task may need at least two labels."""
    count = max(1, -(-len(labels) // max(3, size)), -(-characters_of(labels) // _TICK_CHARACTERS))
    count = min(count, max(1, len(labels) // 2))
    for number in range(count):
        yield labels[number * len(labels) // count : (number + 1) * len(labels) // count]


def _start(
    module: nn.Module, task: Task, labels: Sequence[str], examples: Sequence[Example]
) -> dict[str, Tensor]:
    return task.start(module, labels, examples)


def finished(work: Generator[object, None, T]) -> T:
    """Return the result of work whose ticks need not be separate."""
    while True:
        try:
            next(work)
        except StopIteration as stop:
            result: T = stop.value
            return result
