"""Answers that grow a token at a time: the task's part and the runner's.

A task with a cache of keys and values derives from `GenerativeTask`. The runner decides which
answers get their next token in one forward, which adapter answers each, and how many bytes caches
may take; the task defines the tokens. This module knows no thread and no adapter.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from cog_adapt.runner.task.task import Task


class Generation(ABC):
    """One answer in progress, with the model's state between two forwards.

    Attributes:
        nbytes: the most that it may keep; known before its first forward.
        joins: whether its next forward may have others' rows; False while its input is read.
        done: whether nothing comes after what `taken` gives.
    """

    nbytes: int = 0
    joins: bool = False
    done: bool = False

    @abstractmethod
    def taken(self) -> Any:  # noqa: ANN401 - a piece of any kind
        """Take the output made since the last call, or None."""

    @abstractmethod
    def facts(self) -> Mapping[str, Any]:
        """Return plain values about the answer's cost and the reason for its end."""

    @abstractmethod
    def close(self) -> None:
        """Release the model's state; called once, also after an error."""


@dataclass(frozen=True)
class AnswerPiece:
    """A piece of an answer."""

    piece: Any


class GenerativeTask(Task):
    """A task whose answers grow. Write `begin`, `next_logits` and `accept`.

    With `shares_forwards` a forward may have rows of several adapters. Only the self-test calls
    `predict`: requests are answered by generations.
    """

    @abstractmethod
    def begin(self, input: Any, options: Any) -> Generation:  # noqa: ANN401 - the task's own
        """Begin an answer, before any forward; refuse an unsuitable input (InputError)."""

    @abstractmethod
    def next_logits(self, module: nn.Module, generations: Sequence[Generation]) -> Tensor:
        """Compute the next logits of each, shape (N, V); N is 1 for an answer that does not join.

        A second call of `next_logits` before `accept` returns the same logits.
        """

    @abstractmethod
    def accept(self, generation: Generation, logits: Tensor) -> None:
        """Continue an answer by its row of the logits, shape (V,)."""

    def joined(self, pieces: Sequence[Any]) -> Any:  # noqa: ANN401 - an answer of any kind
        """Join an answer's pieces; by default these are texts."""
        return "".join(pieces)

    def more_of_report(self, report: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return further entries for an adaptation's report, made from its present ones."""
        return {}
