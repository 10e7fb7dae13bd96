"""The tensors that an adaptation begins with: from its recipe, label set and earlier adapter."""

import re
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.modules.adapters import Adapter
from cog_adapt.runner.task.labelled import check_apart
from cog_adapt.runner.task.task import Task

Fresh = Callable[[], Generator[None, None, dict[str, Tensor]]]


def labels_to_learn(
    task: Task, examples: Sequence[Example], begin: Adapter | None
) -> tuple[str, ...]:
    """Determine the label set: an earlier adapter's labels, then the examples' new ones.

    Raises:
        InputError: the task cannot use the labels, there are more labels than the task allows, or
            two labels look alike.
    """
    known = begin.labels if begin is not None else ()
    ahead = [Example(examples[0].input, label) for label in known]
    labels = tuple(task.labels([*ahead, *examples]))
    if len(labels) > task.max_labels:
        raise InputError(f"{len(labels):,} labels, the limit is {task.max_labels:,}. Give fewer.")
    check_apart(labels)
    return labels


def part_of(adapter: Adapter, labels: Sequence[str], head: str) -> Adapter:
    """Return an adapter with those of its labels that are in `labels`, in that order."""
    known = tuple(label for label in labels if label in adapter.labels)
    rows = torch.tensor([adapter.labels.index(label) for label in known], dtype=torch.int64)
    tensors = {
        name: tensor[rows] if re.fullmatch(head, name) else tensor
        for name, tensor in adapter.tensors.items()
    }
    return replace(adapter, tensors=tensors, labels=known)


def going_on(
    begin: Adapter, labels: Sequence[str], fresh: Fresh, head: str
) -> Generator[None, None, dict[str, Tensor]]:
    """Return an adapter's tensors for a label set: its own rows, and fresh ones for new labels.

    Args:
        begin: the adapter to continue from.
        labels: the label set.
        fresh: makes the label set's tensors before any training, some labels a tick.
        head: full-match regex of the tensors that have a row for each label (`Task.head`).

    Raises:
        InputError: the task gives no rows for new labels.
    """
    tensors = dict(begin.tensors)
    if tuple(labels) == begin.labels:
        return tensors
    made = yield from fresh()
    for name in filter(re.compile(head).fullmatch, begin.tensors):
        if name not in made:
            raise InputError(
                f"adapter {begin.id} has the labels {list(begin.labels)!r}, and its {name} has no "
                "place for others: the task starts no such tensor. Send examples of these labels."
            )
        tensors[name] = _with_rows(
            made[name], labels=labels, own=begin.tensors[name], own_labels=begin.labels
        )
    return tensors


def _with_rows(
    fresh: Tensor, labels: Sequence[str], own: Tensor, own_labels: Sequence[str]
) -> Tensor:
    """Return fresh rows, with the adapter's own rows for its labels."""
    known = {label: row for row, label in enumerate(own_labels)}
    rows = fresh.to(own.device, own.dtype, copy=True)
    for row, label in enumerate(labels):
        if label in known:
            rows[row] = own[known[label]]
    return rows
