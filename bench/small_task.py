"""A small real task for benchmarks of many short runs: an encoder of letters with attention."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.task.task import Batch, Task
from gradient_check.phases.randomness import generator

_WIDTH = 16
UNFIT, NOT_FINITE = "#", "~"  # a text with one of these is refused; one with the other has no loss


class LetterEncoder(nn.Module):
    """Masked attention over letters, a feed-forward layer with dropout, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(128, _WIDTH)
        self.query = nn.Linear(_WIDTH, _WIDTH)
        self.value = nn.Linear(_WIDTH, _WIDTH)
        self.norm = nn.LayerNorm(_WIDTH)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(_WIDTH, 1)
        self.register_buffer("forwards", torch.zeros(1))

    def forward(self, batch: Batch) -> Tensor:
        """Return logits (N, labels)."""
        mask = batch["attention_mask"]
        x = self.embedding(batch["ids"])
        found = F.scaled_dot_product_attention(
            self.query(x), x, self.value(x), attn_mask=mask[:, None] > 0
        )
        hidden = self.norm(x + self.drop(F.gelu(found))) * mask[..., None]
        logits: Tensor = self.head(hidden.sum(1) / mask.sum(1, keepdim=True))
        return logits


class SmallTask(Task):
    """Texts in, a label's scores out; adapters share forwards."""

    lora_targets = "query|value"
    rank = 2
    shares_forwards = True

    def load(self) -> nn.Module:
        """Build the encoder, always with the same weights."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return LetterEncoder()

    def encode(self, inputs: Sequence[Any]) -> Batch:
        """Turn letters into their codes."""
        if any(UNFIT in text for text in inputs):
            raise InputError(f"a text has {UNFIT!r}. Send letters.")
        rows = [torch.tensor([ord(letter) % 127 for letter in text]) for text in inputs]
        ids = nn.utils.rnn.pad_sequence(rows, batch_first=True)
        return {"ids": ids, "attention_mask": (ids > 0).long()}

    def loss(self, module: nn.Module, batch: Batch, targets: Tensor) -> Tensor:
        """Compute cross-entropy; it is infinite for some texts."""
        losses = F.cross_entropy(module(batch), targets, reduction="none")
        bad = (batch["ids"] == ord(NOT_FINITE)).any(1)
        return losses.masked_fill(bad, torch.inf)

    def predict(
        self,
        module: nn.Module,
        batch: Batch,
        labels: Sequence[str],
        options: None,
    ) -> list[Any]:
        """Return the logits."""
        rows: list[Any] = module(batch).tolist()
        return rows

    def probe(self) -> list[Example]:
        """Give two examples."""
        return [Example("abc", "low"), Example("xyz", "high")]

    def labels(self, examples: Sequence[Example]) -> tuple[str, ...]:
        """Give the labels in the order in which they come."""
        return tuple(dict.fromkeys(example.target for example in examples))

    def start(
        self, module: nn.Module, labels: Sequence[str], examples: Sequence[Example]
    ) -> dict[str, Tensor]:
        """Draw a head's rows from the names."""
        device = next(module.parameters()).device
        rows = [torch.randn(_WIDTH, generator=generator(0, name)) for name in labels]
        return {
            "head.weight": torch.stack(rows).to(device),
            "head.bias": torch.zeros(len(labels), device=device),
        }
