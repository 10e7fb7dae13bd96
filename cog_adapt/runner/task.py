"""What a user writes for a model of their own: one class."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from cog_adapt.runner.examples import Example

Batch = dict[str, Tensor]
"""Tensors by name, each with one row per input: (N, ...)."""


class Task(ABC):
    """A model and what it is asked to do.

    The runner calls `load` once in setup and everything else on its model thread, in the right
    phase, with tensors on the right device. A task keeps no state that a call changes.

    Attributes:
        lora_targets: full-match regex of the linear layers that LoRA adapts.
        head: full-match regex of the parameters that every method trains besides its own.
        unused: regex of parameters that the loss rightly ignores (an encoder's pooler, say); the
            self-test asks no gradient of them.
    """

    lora_targets: str = ".*"
    head: str = r"head\..*"
    unused: str = "(?!)"  # matches nothing

    @abstractmethod
    def load(self) -> nn.Module:
        """Build the module with its weights, on the CPU."""

    @abstractmethod
    def encode(self, inputs: Sequence[Any]) -> Batch:
        """Turn N inputs into CPU tensors with N rows each; refuse unusable ones (InputError)."""

    @abstractmethod
    def encode_targets(self, targets: Sequence[Any], labels: Sequence[str]) -> Tensor:
        """Turn N targets into a CPU tensor with N rows."""

    @abstractmethod
    def loss(self, module: nn.Module, batch: Batch, targets: Tensor) -> Tensor:
        """The loss of each example, shape (N,)."""

    @abstractmethod
    def predict(self, module: nn.Module, batch: Batch, labels: Sequence[str]) -> list[Any]:
        """N predictions as plain Python values."""

    @abstractmethod
    def probe(self) -> list[Example]:
        """A few examples for the self-test (two are enough) that any host can encode."""

    def labels(self, examples: Sequence[Example]) -> tuple[str, ...]:
        """The label set of these examples, in a stable order; () for a task without labels."""
        return ()

    def start(self, module: nn.Module, labels: Sequence[str]) -> dict[str, Tensor]:
        """Named tensors that a label set calls for before any training, say a head's rows.

        They replace or join the module's parameters of the same names, which `head` matches, and
        every method trains them; the first axis has a row for each label. Called with the base,
        in the inference phase.
        """
        return {}

    def score(self, module: nn.Module, batch: Batch, targets: Tensor) -> Tensor:
        """How good each example's answer is, shape (N,), higher is better; the default: -loss."""
        return -self.loss(module, batch, targets)


def on_device(batch: Batch, device: torch.device) -> Batch:
    """The batch's tensors on `device`."""
    return {name: tensor.to(device, non_blocking=True) for name, tensor in batch.items()}
