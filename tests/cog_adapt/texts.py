"""A small encoder of padded texts, as a task: three blocks that a regular expression names.

`Texts(padding_side="left")` pads on the left. Faults of a model that does not fit the scheme of a
frozen trunk are its attributes.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cog_adapt.runner.adaptation.length_groups import in_length_groups
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.task.task import Batch
from gradient_check.tests.models import LABELS
from tests.cog_adapt.models import Labelled

WIDTH = 8


class TextBlock(nn.Module):
    """Masked attention and a feed-forward layer with dropout; gives a tuple, as many do."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.query = nn.Linear(WIDTH, WIDTH)
        self.value = nn.Linear(WIDTH, WIDTH)
        self.drop = nn.Dropout(0.1)

    def forward(self, hidden: Tensor, mask: Tensor) -> tuple[Tensor, None]:
        x = self.norm(hidden)
        found = F.scaled_dot_product_attention(self.query(x), x, self.value(x), mask[:, None] > 0)
        return hidden + self.drop(F.gelu(found)), None


class TextEncoder(nn.Module):
    """Embedding, three blocks, mean over tokens, head."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(32, WIDTH)
        self.drop = nn.Dropout(0.0)
        self.blocks = nn.ModuleList([TextBlock() for _ in range(3)])
        self.head = nn.Linear(WIDTH, len(LABELS))
        self.order = [0, 1, 2]
        self.passed = True

    def forward(self, batch: Batch) -> Tensor:
        mask = batch["attention_mask"]
        hidden = self.drop(self.embedding(batch["ids"]))
        seen = hidden
        for number in self.order:
            hidden, _ = self.blocks[number](hidden, mask)
            seen = hidden if number == 0 else seen
        hidden = hidden if self.passed else hidden + seen
        shares = mask / mask.sum(1, keepdim=True)
        return torch.einsum("ntd,nt->nd", hidden, shares)


class Texts(Labelled):
    """Strings of any length in, a label out."""

    blocks = r"blocks\.\d"
    lora_targets = r"blocks\.\d\.(query|value)"

    def __init__(self, padding_side: str = "right", groups: int = 2) -> None:
        self.padding_side = padding_side
        self.groups = groups
        self.encoded: list[int] = []

    def module(self) -> nn.Module:
        return TextEncoder()

    def encode(self, inputs: Sequence[Any]) -> Batch:
        self.encoded.append(len(inputs))
        ids = [torch.tensor([ord(c) % 31 for c in text]) for text in inputs]
        masks = [torch.ones(len(text), dtype=torch.int64) for text in inputs]
        pad = nn.utils.rnn.pad_sequence
        return {
            "ids": pad(ids, True, 31, self.padding_side),
            "attention_mask": pad(masks, True, 0, self.padding_side),
        }

    def probe(self) -> list[Example]:
        return [Example("abc", LABELS[0]), Example("defgh", LABELS[1])]

    def logits(self, module: Any, batch: Batch) -> Tensor:
        if self.padding_side == "left":
            return module.head(module(batch))
        return module.head(in_length_groups(module, batch, self.groups))

    def loss(self, module: Any, batch: Batch, targets: Tensor) -> Tensor:
        losses = F.cross_entropy(self.logits(module, batch).float(), targets, reduction="none")
        return self.spoiled(losses)

    def predict(self, module: Any, batch: Batch, labels: Sequence[str], options: None) -> list[Any]:
        return self.logits(module, batch).float().tolist()
