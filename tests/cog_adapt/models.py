"""Small real models, each as a task: one training step takes a millisecond or two.

`SHAPES` names them all. Inputs are short strings or rows of numbers; `examples(shape, count)`
gives examples that fit. Predictions are raw numbers, so that two answers can be compared bit
for bit.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.task.task import Batch, Task
from gradient_check.phases.randomness import generator
from gradient_check.tests.models import (
    LABELS,
    LENGTH,
    VOCABULARY,
    WIDTH,
    CachingMlp,
    ConvNet,
    Curve,
    LazyNet,
    SpectralNet,
    TinyTransformer,
    seeded_module,
)


class Faulty(Task):
    """A task whose loss a test may spoil: `fault(losses)` is called on every loss that trains."""

    fault: Callable[[Tensor], Tensor] | None = None

    def spoiled(self, losses: Tensor) -> Tensor:
        if self.fault is None or not torch.is_grad_enabled():
            return losses
        return self.fault(losses)


class Labelled(Faulty):
    """Rows of numbers in, one of a label set out; the head's rows come from the labels' names."""

    lora_targets = r"(fc|layers)\..*|fc|query|value"
    width = WIDTH

    def module(self) -> nn.Module:
        raise NotImplementedError

    def load(self) -> nn.Module:
        return seeded_module(self.module)

    def encode(self, inputs: Sequence[Any]) -> Batch:
        if any(len(row) != WIDTH for row in inputs):
            raise InputError(f"an input has not {WIDTH} numbers. Send rows of {WIDTH}.")
        return {"x": torch.tensor(list(inputs), dtype=torch.float32)}

    def loss(self, module: Any, batch: Batch, targets: Tensor) -> Tensor:
        logits = module(**batch)
        return self.spoiled(F.cross_entropy(logits.float(), targets, reduction="none"))

    def predict(self, module: Any, batch: Batch, labels: Sequence[str], options: None) -> list[Any]:
        return module(**batch).float().tolist()

    def probe(self) -> list[Example]:
        return _rows(2)

    def labels(self, examples: Sequence[Example]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(example.target for example in examples))

    def start(
        self, module: Any, labels: Sequence[str], examples: Sequence[Example]
    ) -> dict[str, Tensor]:
        if not labels:
            raise InputError("no labels: name at least two.")
        device = next(module.parameters()).device
        rows = [torch.randn(self.width, generator=generator(0, name)) for name in labels]
        return {
            "head.weight": torch.stack(rows).to(device),
            "head.bias": torch.zeros(len(labels), device=device),
        }


class Images(Labelled):
    """The conv net with BatchNorm and dropout."""

    def module(self) -> nn.Module:
        return ConvNet()


class Letters(Labelled):
    """Strings in, a label out, with a small language-model loss through the tied weights."""

    lora_targets = r"blocks\.\d+\.attention\.(query|value)"

    def module(self) -> nn.Module:
        return TinyTransformer()

    def encode(self, inputs: Sequence[Any]) -> Batch:
        if not all(isinstance(text, str) and text for text in inputs):
            raise InputError("an input is no text. Send strings.")
        rows = [[ord(c) % VOCABULARY for c in text.ljust(LENGTH)[:LENGTH]] for text in inputs]
        return {"ids": torch.tensor(rows)}

    def loss(self, module: Any, batch: Batch, targets: Tensor) -> Tensor:
        logits, letters = module(**batch)
        guess = F.cross_entropy(
            letters[:, :-1].transpose(1, 2).float(), batch["ids"][:, 1:], reduction="none"
        )
        losses = F.cross_entropy(logits.float(), targets, reduction="none") + 0.1 * guess.mean(1)
        return self.spoiled(losses)

    def predict(self, module: Any, batch: Batch, labels: Sequence[str], options: None) -> list[Any]:
        return module(**batch)[0].float().tolist()

    def probe(self) -> list[Example]:
        return [Example("abc", "low"), Example("xyz", "high")]


class Caching(Labelled):
    """The MLP that caches tensors in its forward."""

    def module(self) -> nn.Module:
        return CachingMlp()


class Spectral(Labelled):
    """The spectral-norm model."""

    def module(self) -> nn.Module:
        return SpectralNet()


class Lazy(Labelled):
    """The model with a lazy layer; its width is drawn in the first forward."""

    def module(self) -> nn.Module:
        return LazyNet()

    def start(
        self, module: Any, labels: Sequence[str], examples: Sequence[Example]
    ) -> dict[str, Tensor]:
        return super().start(module.get_submodule("head"), labels, examples)


class Regression(Labelled):
    """A task without labels."""

    lora_targets = "fc|out"

    def module(self) -> nn.Module:
        return Curve()

    def loss(self, module: Any, batch: Batch, targets: Tensor) -> Tensor:
        return self.spoiled((module(**batch).float() - targets) ** 2)

    def probe(self) -> list[Example]:
        return _numbers(2)

    def labels(self, examples: Sequence[Example]) -> tuple[str, ...]:
        return ()

    def start(
        self, module: Any, labels: Sequence[str], examples: Sequence[Example]
    ) -> dict[str, Tensor]:
        return {}


def _rows(count: int, seed: int = 0) -> list[Example]:
    draw = random.Random(seed)
    rows = [[draw.uniform(-1, 1) for _ in range(WIDTH)] for _ in range(count)]
    return [Example(row, LABELS[i % len(LABELS)]) for i, row in enumerate(rows)]


def _numbers(count: int, seed: int = 0) -> list[Example]:
    return [Example(e.input, sum(e.input)) for e in _rows(count, seed)]


def _texts(count: int, seed: int = 0) -> list[Example]:
    draw = random.Random(seed)
    texts = ["".join(draw.choices("abcdefghij", k=5)) for _ in range(count)]
    return [Example(text, LABELS[i % len(LABELS)]) for i, text in enumerate(texts)]


SHAPES: dict[str, type[Faulty]] = {
    "images": Images,
    "letters": Letters,
    "caching": Caching,
    "spectral": Spectral,
    "lazy": Lazy,
    "regression": Regression,
}
_EXAMPLES = {"letters": _texts, "regression": _numbers}


def examples(shape: str, count: int = 6, seed: int = 0) -> list[Example]:
    """Examples that fit the task of that name; labels in turn."""
    return _EXAMPLES.get(shape, _rows)(count, seed)


def inputs(shape: str, count: int = 3, seed: int = 99) -> list[Any]:
    """Inputs that fit the task of that name."""
    return [example.input for example in examples(shape, count, seed)]


def labels(shape: str) -> tuple[str, ...]:
    """The label set of those examples."""
    return () if shape == "regression" else LABELS


# What a method finds nothing to train in.
NOTHING = {
    ("regression", "head"),
    ("images", "match:fc"),
    ("caching", "norms"),
    ("spectral", "norms"),
    ("lazy", "norms"),
}
