"""Small real models: one training step takes a millisecond or two."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

LABELS = ("low", "mid", "high")
WIDTH = 8
LENGTH = 6
VOCABULARY = 32


class Cancelled(BaseException):
    """Stands for Cog's CancellationException: no Exception."""


def seeded_module(make: Callable[[], nn.Module], seed: int = 0) -> Any:
    """Build a module with weights drawn from `seed`, and leave the process's stream alone."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # of the CPU alone: no device is touched
        return make()


class ConvNet(nn.Module):
    """Convolution, BatchNorm, dropout, head; its `steps` buffer counts training forwards."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.2)
        self.fc = nn.Linear(4 * WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, len(LABELS))

    def forward(self, x: Tensor) -> Tensor:
        hidden = F.relu(self.norm(self.conv(x.unsqueeze(1))))
        return self.head(self.drop(F.gelu(self.fc(hidden.flatten(1)))))


class Attention(nn.Module):
    """One head of self-attention with separate projections."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(self.query(x), self.key(x), self.value(x))


class Block(nn.Module):
    """Attention and a feed-forward layer, each behind a LayerNorm and round a residual."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width)
        self.norm2 = nn.LayerNorm(width)
        self.feed = nn.Linear(width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.drop(F.gelu(self.feed(self.norm2(x))))


class TinyTransformer(nn.Module):
    """Two blocks; the output projection is tied to the embedding."""

    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.position = nn.Parameter(torch.randn(LENGTH, width) * 0.1)
        self.blocks = nn.ModuleList([Block(width), Block(width)])
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, VOCABULARY, bias=False)
        self.output.weight = self.embedding.weight
        self.head = nn.Linear(width, len(LABELS))

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.embedding(ids) + self.position
        for block in self.blocks:
            hidden = block(hidden)
        hidden = self.norm(hidden)
        return self.head(hidden.mean(1)), self.output(hidden)


class CachingMlp(nn.Module):
    """Two layers with a persistent buffer and one that the first forward makes and keeps."""

    cache: Tensor | None
    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))
        self.head = nn.Linear(WIDTH, len(LABELS))
        self.register_buffer("scale", torch.full((WIDTH,), 0.5))
        self.register_buffer("cache", None, persistent=False)
        self.calls = {"forward": 0}

    def forward(self, x: Tensor) -> Tensor:
        self.calls["forward"] += 1
        if self.cache is None:
            self.cache = torch.linspace(0.5, 1.5, WIDTH, device=x.device)
        return self.head(self.layers(x * self.scale) * self.cache)


class SpectralNet(nn.Module):
    """A spectrally normalised layer: a parametrization with buffers of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(WIDTH, WIDTH)
        self.spectral = parametrizations.spectral_norm(nn.Linear(WIDTH, WIDTH))
        self.head = nn.Linear(WIDTH, len(LABELS))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.relu(self.spectral(F.relu(self.fc(x)))))


class LazyNet(nn.Module):
    """Its first layer learns its width from the first forward."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.LazyLinear(WIDTH)
        self.layers = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())
        self.head = nn.Linear(WIDTH, len(LABELS))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layers(self.fc(x)))


class Curve(nn.Module):
    """Rows in, a number out."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.out = nn.Linear(WIDTH, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(F.gelu(self.norm(self.fc(x)))).squeeze(-1)
