"""Answers that grow a token at a time: what a task says of them, and what the runner asks.

A task with a cache of keys and values derives from `GenerativeTask`. The runner then decides which
answers get their next token in one forward, whose adapter answers which, and how many bytes caches
may take; the task knows what a token is. This module knows no thread and no adapter.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from cog_adapt.runner.task.task import Task


class Generation(ABC):
    """One answer on its way, with what the model keeps of it between two forwards.

    Attributes:
        nbytes: that it may come to keep at most; known before its first forward.
        joins: whether its next forward may have others' rows; False while its input is read.
        done: whether nothing comes after what `taken` gives.
    """

    nbytes: int = 0
    joins: bool = False
    done: bool = False

    @abstractmethod
    def taken(self) -> Any:  # noqa: ANN401 - a piece of any kind
        """Take what was made since the last call; None where nothing was."""

    @abstractmethod
    def facts(self) -> Mapping[str, Any]:
        """Say in plain values what the answer took, and why it ended."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what the model keeps; called once, whatever happened."""


@dataclass(frozen=True)
class AnswerPiece:
    """A piece of an answer."""

    piece: Any


class GenerativeTask(Task):
    """A task whose answers grow. Write `begin`, `next_logits` and `accept`.

    With `shares_forwards` a forward may have rows of several adapters. `predict` is asked by the
    self-test alone: requests are answered by generations.
    """

    @abstractmethod
    def begin(self, input: Any, options: Any) -> Generation:  # noqa: ANN401 - the task's own
        """Begin an answer, before any forward; refuse what does not fit (InputError)."""

    @abstractmethod
    def next_logits(self, module: nn.Module, generations: Sequence[Generation]) -> Tensor:
        """Compute what comes next of each, shape (N, V); of one that does not join, N is 1.

        It may be called again before `accept`, and then gives the same.
        """

    @abstractmethod
    def accept(self, generation: Generation, logits: Tensor) -> None:
        """Go on with an answer by its row of the logits, shape (V,)."""

    def joined(self, pieces: Sequence[Any]) -> Any:  # noqa: ANN401 - an answer of any kind
        """Make an answer of its pieces; by default these are texts."""
        return "".join(pieces)

    def more_of_report(self, report: Mapping[str, Any]) -> Mapping[str, Any]:
        """Give more entries for the report of an adaptation, made of those that it has."""
        return {}
