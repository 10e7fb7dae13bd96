"""Several examples in one row, isolated from each other; their common beginning is read once.

A row has the examples' common beginning (a chat template's system message, say), then each
example's own tokens. A token attends to the common tokens and to earlier ones of its own example,
at the positions that it would have alone: losses and gradients equal those of separate examples.
This module knows no model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from os.path import commonprefix

import torch
from torch import Tensor

from cog_adapt.runner.task.task import Batch, PartTokens

# tokens of a packed row, unless one example has more: attention grows with the square
MOST_TOKENS = 512
_WORTH = 3 / 4  # a packed row is worth it below this share of a padded batch's tokens


@dataclass(frozen=True)
class Tokens:
    """The tokens of a prompt, at least one, and of its answer, at least one."""

    prompt: list[int]
    answer: list[int]

    @property
    def read(self) -> list[int]:
        """The tokens that a model reads: the last one predicts nothing."""
        return self.prompt + self.answer[:-1]


@dataclass(frozen=True)
class PackedRow:
    """Examples that share a row of T tokens, with K answer tokens to learn.

    Attributes:
        examples: in order.
        prefix: tokens that all prompts begin with; each prompt has at least one more.
    """

    examples: tuple[Tokens, ...]
    prefix: int

    def __len__(self) -> int:
        """Return the row's tokens."""
        return self.prefix + sum(self.lengths)

    @property
    def lengths(self) -> list[int]:
        """The number of each example's own tokens."""
        return [len(example.read) - self.prefix for example in self.examples]

    @property
    def input_ids(self) -> Tensor:
        """The tokens, shape (1, T)."""
        own = (example.read[self.prefix :] for example in self.examples)
        return torch.tensor([sum(own, self.examples[0].read[: self.prefix])])

    @property
    def position_ids(self) -> Tensor:
        """The position of each token in its example, shape (1, T)."""
        first = self.prefix
        own = [torch.arange(first, first + length) for length in self.lengths]
        return torch.cat([torch.arange(first), *own])[None]

    @property
    def mask(self) -> Tensor:
        """Whether a token attends to another, shape (1, 1, T, T)."""
        counts = torch.tensor([self.prefix, *self.lengths])
        # 0 marks the prefix, which belongs to all examples
        owner = torch.arange(len(counts)).repeat_interleave(counts)
        seen = (owner[:, None] == owner) | (owner == 0)
        return (seen & torch.ones_like(seen).tril())[None, None]

    @property
    def asked(self) -> Tensor:
        """The positions whose logits predict the answers' tokens, shape (K,)."""
        ends = [*accumulate(self.lengths, initial=self.prefix)][1:]
        return torch.cat(
            [
                torch.arange(end - len(example.answer), end)
                for end, example in zip(ends, self.examples, strict=True)
            ]
        )

    @property
    def answers(self) -> Tensor:
        """The answers' tokens, shape (K,)."""
        return torch.tensor([token for example in self.examples for token in example.answer])


class PackedTokens(PartTokens):
    """Counts the tokens of a part that is packed on a CPU.

    Args:
        common: tokens that most examples begin with; a part reads them once.
    """

    def __init__(self, common: Sequence[int]) -> None:
        self.common = [*common]

    def of(self, row: Batch, target: Tensor, device: torch.device) -> int:
        """Count an example's tokens that the model reads, answer included."""
        own = row["input_ids"][row["attention_mask"].bool()].tolist()
        count = len(own) + int((target >= 0).sum()) - 1
        shares = device.type == "cpu" and own[: len(self.common)] == self.common
        return count - len(self.common) if shares else count

    def all(self, tokens: Sequence[int], device: torch.device) -> int:
        """Count the tokens of a part with examples of these counts."""
        return sum(tokens) if device.type == "cpu" else super().all(tokens, device)


def pack(examples: Sequence[Tokens], most: int = MOST_TOKENS) -> list[PackedRow]:
    """Pack examples into rows, in order; no rows if padding costs about as little."""
    rows = [_joined(None, examples[0])]
    for example in examples[1:]:
        joined = _joined(rows[-1], example)
        rows[-1:] = [joined] if len(joined) <= most else [rows[-1], _joined(None, example)]
    widest = max(len(e.prompt) for e in examples) + max(len(e.answer) for e in examples)
    worth = sum(map(len, rows)) <= _WORTH * widest * len(examples)
    return rows if worth else []


def _joined(row: PackedRow | None, example: Tokens) -> PackedRow:
    before = [row.examples[0].prompt[: row.prefix]] if row else []
    shared = commonprefix([*before, example.prompt[:-1]])
    return PackedRow((*(row.examples if row else ()), example), len(shared))
