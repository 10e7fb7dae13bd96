"""Low-rank adaptation (Hu et al. 2021, arXiv 2106.09685) of linear layers and convolutions.

A layer of a private replica becomes a `LoRALinear` (or `LoRAConv…`) by a change of its class, so
its parameters keep their names: `query.weight` is joined by `query.lora_a` and `query.lora_b`. The
numbers are those of the package peft. This module knows no task and no replica.
"""

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

LORA_A = "lora_a"
LORA_B = "lora_b"
SCALE = 2.0  # alpha = 2 r, as in the paper's GPT-2 runs: alpha / r is then 2


class LoRALinear(nn.Linear):
    """y = x Wᵀ + b + scale (x Aᵀ) Bᵀ, with A (rank, in) and B (out, rank) in float32."""

    lora_a: nn.Parameter
    lora_b: nn.Parameter
    lora_scale: float = SCALE

    def forward(self, input: Tensor) -> Tensor:
        """Map shape (..., in) to (..., out), in the dtype of the layer's own output."""
        frozen = super().forward(input)
        low = F.linear(input.to(self.lora_a.dtype), self.lora_a)
        return frozen + (F.linear(low, self.lora_b) * self.lora_scale).to(frozen.dtype)


class _LoRAConv(nn.Module):
    """A convolution's output, plus that of a pair: A has the layer's kernel, B a kernel of 1."""

    lora_a: nn.Parameter
    lora_b: nn.Parameter
    lora_scale: float = SCALE
    stride: tuple[int, ...]
    padding: str | tuple[int, ...]
    groups: int

    def _paired(self, convolve: Callable[..., Tensor], input: Tensor, frozen: Tensor) -> Tensor:
        low = convolve(input.to(self.lora_a.dtype), self.lora_a, None, self.stride, self.padding)
        high = convolve(low, self.lora_b, groups=self.groups)
        return frozen + (high * self.lora_scale).to(frozen.dtype)


class LoRAConv1d(_LoRAConv, nn.Conv1d):
    """A convolution over lengths, with a pair."""

    def forward(self, input: Tensor) -> Tensor:
        """Map shape (N, in, L) as the layer itself does."""
        return self._paired(F.conv1d, input, nn.Conv1d.forward(self, input))


class LoRAConv2d(_LoRAConv, nn.Conv2d):
    """A convolution over images, with a pair."""

    def forward(self, input: Tensor) -> Tensor:
        """Map shape (N, in, H, W) as the layer itself does."""
        return self._paired(F.conv2d, input, nn.Conv2d.forward(self, input))


class LoRAConv3d(_LoRAConv, nn.Conv3d):
    """A convolution over volumes, with a pair."""

    def forward(self, input: Tensor) -> Tensor:
        """Map shape (N, in, D, H, W) as the layer itself does."""
        return self._paired(F.conv3d, input, nn.Conv3d.forward(self, input))


_WITH_PAIR: dict[type[nn.Module], type[nn.Module]] = {
    nn.Linear: LoRALinear,
    nn.Conv1d: LoRAConv1d,
    nn.Conv2d: LoRAConv2d,
    nn.Conv3d: LoRAConv3d,
}


def lora_tensors(layer: nn.Linear, rank: int, generator: Generator) -> dict[str, Tensor]:
    """Make a new pair: A is drawn like the weight of `nn.Linear`; B is 0, so the output is equal.

    A is drawn on the CPU, so that a seed gives the same values on every device.
    """
    a = torch.empty(rank, layer.in_features)
    nn.init.kaiming_uniform_(a, a=math.sqrt(5), generator=generator)
    device = layer.weight.device
    return {LORA_A: a.to(device), LORA_B: torch.zeros(layer.out_features, rank, device=device)}


def pair_shapes(
    layer: nn.Module | None, rank: int
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the shapes of A and B for a layer; None if the layer cannot have a pair of that rank.

    Only the classes of torch.nn themselves have pairs, because the `forward` of a subclass may
    never be called.
    """
    if type(layer) is nn.Linear:
        return (rank, layer.in_features), (layer.out_features, rank)
    if type(layer) not in _WITH_PAIR or not isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        return None
    if rank % layer.groups:
        return None
    kernel = tuple(layer.kernel_size)
    ones = (1,) * len(kernel)
    return (
        (rank, layer.in_channels, *kernel),
        (layer.out_channels, rank // layer.groups, *ones),
    )


def wrap_layer(layer: nn.Module, scale: float = SCALE) -> None:
    """Make a layer of a private replica add its pair, which the caller sets."""
    if type(layer) in _WITH_PAIR:
        layer.__class__ = _WITH_PAIR[type(layer)]
    if scale != SCALE:
        layer.lora_scale = scale  # type: ignore[assignment]
