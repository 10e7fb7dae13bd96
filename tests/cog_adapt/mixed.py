"""A small task whose adapters share forwards, and adapters of several structures for it."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.inference.answers import Query
from cog_adapt.runner.model.loaded_model import LoadedModel
from cog_adapt.runner.modules.adapters import Adapter
from cog_adapt.runner.modules.batch_rows import batch_rows
from cog_adapt.runner.task.task import Batch
from gradient_check.tests.models import Attention
from tests.cog_adapt.devices import DEVICE
from tests.cog_adapt.models import Labelled

_WIDTH = 8


class Encoder(nn.Module):
    """Masked attention over letters, and a head; long batches run in groups of like length."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(128, _WIDTH)
        self.attention = Attention(_WIDTH)
        self.norm = nn.LayerNorm(_WIDTH)
        self.head = nn.Linear(_WIDTH, 1)

    def forward(self, batch: Batch) -> Tensor:
        mask = batch["attention_mask"]
        if len(mask) < 4:
            return self.head(self.mean(batch))
        order = mask.sum(1).argsort(stable=True)
        parts = []
        for rows in order.tensor_split(2):
            with batch_rows(rows):
                parts.append(self.mean({name: tensor[rows] for name, tensor in batch.items()}))
        return self.head(torch.cat(parts)[order.argsort()])

    def attend(self, hidden: Tensor, mask: Tensor) -> Tensor:
        part = self.attention
        asked = part.query(hidden), part.key(hidden), part.value(hidden)
        return F.scaled_dot_product_attention(*asked, attn_mask=mask.unsqueeze(1))

    def mean(self, batch: Batch) -> Tensor:
        mask = batch["attention_mask"].unsqueeze(-1).float()
        hidden = self.embedding(batch["ids"]) * mask
        hidden = self.norm(hidden + self.attend(hidden, mask.squeeze(-1).bool())) * mask
        return hidden.sum(1) / mask.sum(1)


class Mixed(Labelled):
    """Words in, raw scores of labels out."""

    lora_targets = r"attention\.(query|value)"
    shares_forwards = True

    def module(self) -> nn.Module:
        return Encoder()

    def encode(self, inputs: Sequence[Any]) -> Batch:
        ids = [torch.tensor([ord(letter) for letter in text]) for text in inputs]
        padded = nn.utils.rnn.pad_sequence(ids, batch_first=True)
        return {"ids": padded, "attention_mask": (padded > 0).long()}

    def loss(self, module: Any, batch: Batch, targets: Tensor) -> Tensor:
        return F.cross_entropy(module(batch), targets, reduction="none")

    def predict(self, module: Any, batch: Batch, labels: Sequence[str], options: None) -> list[Any]:
        rows = module(batch).tolist()
        assert all(len(row) == len(labels) for row in rows)
        return rows

    def probe(self) -> list[Example]:
        return [Example("abc", "low"), Example("xyz", "high")]


def loaded(task: Mixed | None = None, **settings: Any) -> LoadedModel:
    """Load the small model; its ticks take no time."""
    return untimed(LoadedModel(task or Mixed(), RunnerSettings(**{"device": DEVICE, **settings})))


def untimed(model: LoadedModel) -> LoadedModel:
    """Let its ticks take no time: a slow one cuts later answers elsewhere, which changes bits."""
    model.predictions.part(Query([])).ticks.pace.clock = float
    return model


def adapter(model: LoadedModel, seed: int, labels: int = 3, rank: int = 2, **more: Any) -> Adapter:
    """Make an adapter of random pairs and a random head; rank 0: of a head alone."""
    draw = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw)

    tensors = {"head.weight": random(labels, _WIDTH), "head.bias": random(labels)}
    for layer in ("query", "value") if rank else ():
        tensors[f"attention.{layer}.lora_a"] = random(rank, _WIDTH)
        tensors[f"attention.{layer}.lora_b"] = random(_WIDTH, rank)
    names = tuple(f"label {number}" for number in range(labels))
    method = "lora" if rank else "head"
    return Adapter(tensors | more.pop("tensors", {}), names, method, model.base.digest, **more)
