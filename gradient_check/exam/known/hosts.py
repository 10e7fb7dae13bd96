"""Cases of the self-test: a model with a fault to be named, or a healthy one; how to register them.

The hosts are healthy models with room for a part that a case gives.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gradient_check.tests.present import present


def squares(output: Tensor) -> Tensor:
    return (output - 0.3).pow(2).flatten(1).mean(1)


def rows(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


IMAGES = rows(2, 3, 8, 8)


@dataclass(frozen=True)
class Fault:
    """A model, and what must be said about it: `code`, the module's path, a token in the line."""

    make: Callable[[], nn.Module]
    code: str
    module: str | None = None
    token: str | None = None
    loss: Callable[..., Any] = squares
    probe: Any = field(default_factory=lambda: rows(3, 6))
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return getattr(self.make, "__name__", str(self.make))


@dataclass(frozen=True)
class Healthy:
    """A model that must pass."""

    make: Callable[[], nn.Module]
    loss: Callable[..., Any] = squares
    probe: Any = field(default_factory=lambda: rows(3, 6))
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.make.__name__


def hosted(kind: type[nn.Module], host: Callable[[nn.Module], nn.Module]) -> Any:
    """A maker of the host with a part of this kind in it, under the kind's name."""

    def make() -> nn.Module:
        return host(kind())

    make.__name__ = kind.__name__
    return make


class Faults(list[Fault]):
    """Faults that decorators register; `defaults` are fields of each.

    Args:
        host: what `part` puts its classes into.
        place: the path of that part in the host.
    """

    def __init__(
        self, host: Callable[[nn.Module], nn.Module] | None = None, place: str = "", **defaults: Any
    ) -> None:
        super().__init__()
        self.host = host
        self.place = place
        self.defaults = defaults

    def model(
        self, code: str, module: str | None = None, token: str | None = None, **rest: Any
    ) -> Any:
        """Register a function or class that makes the whole model."""

        def register(make: Any) -> Any:
            self.append(Fault(make, code, module, token, **{**self.defaults, **rest}))
            return make

        return register

    def part(self, code: str, token: str | None = None, **rest: Any) -> Any:
        """Register the class of the host's part."""
        module = rest.pop("module", self.place)

        def register(kind: Any) -> Any:
            make = hosted(kind, present(self.host))
            self.append(Fault(make, code, module, token, **{**self.defaults, **rest}))
            return kind

        return register


class HealthyModels(list[Healthy]):
    """Healthy models that decorators register; `host` and `defaults` as of `Faults`."""

    def __init__(
        self, host: Callable[[nn.Module], nn.Module] | None = None, **defaults: Any
    ) -> None:
        super().__init__()
        self.host = host
        self.defaults = defaults

    def model(self, **rest: Any) -> Any:
        """Register a function or class that makes the whole model."""

        def register(make: Any) -> Any:
            self.append(Healthy(make, **{**self.defaults, **rest}))
            return make

        return register

    def part(self, kind: Any) -> Any:
        """Register the class of the host's part."""
        self.append(Healthy(hosted(kind, present(self.host)), **self.defaults))
        return kind


class Block(nn.Module):
    """A linear layer followed by something that goes wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.spoil(torch.tanh(self.linear(x)))

    def spoil(self, h: Tensor) -> Tensor:
        return h


class Tower(nn.Module):
    """A healthy layer, the block, and a healthy head."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.blocks = nn.ModuleList([Block(), block])
        self.head = nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.first(x))
        for block in self.blocks:
            h = block(h)
        return self.head(h)


class Conv(nn.Module):
    """A convolutional net with room in its middle, for `IMAGES`."""

    def __init__(self, mid: nn.Module) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.mid = mid
        self.tail = nn.Conv2d(8, 4, 3)
        self.fc = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.tail(self.mid(F.gelu(self.stem(x)))).mean((2, 3)))


class CausalTransformer(nn.Module):
    """A small language model, for `IDS` and `next_token`."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(30, 16)
        self.enc = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True), 3
        )
        self.output = nn.Linear(16, 30)

    def forward(self, ids):
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        return self.output(self.enc(self.embedding(ids), mask=mask, is_causal=True))


IDS = torch.randint(0, 30, (3, 7), generator=torch.Generator().manual_seed(0))


def next_token(module, x):
    logits = module(x)[:, :-1].transpose(1, 2)
    return F.cross_entropy(logits, x[:, 1:], reduction="none").mean(1)
