"""Low-rank adaptation (Hu et al. 2021, arXiv 2106.09685) of linear layers.

A layer of a private replica becomes a `LoRALinear` by a change of its class, so its parameters
keep their names: `query.weight` is joined by `query.lora_a` and `query.lora_b`. This module knows
no task and no replica.
"""

import math

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

LORA_A = "lora_a"
LORA_B = "lora_b"
_ALPHA_PER_RANK = 2.0  # alpha = 2 r, as in the paper's GPT-2 runs: the scale is then 2


class LoRALinear(nn.Linear):
    """y = x Wᵀ + b + 2 (x Aᵀ) Bᵀ, with A (rank, in), B (out, rank) in float32."""

    lora_a: nn.Parameter
    lora_b: nn.Parameter

    def forward(self, input: Tensor) -> Tensor:
        """Map shape (..., in) to (..., out), in the dtype of the layer's own output."""
        frozen = super().forward(input)
        low = F.linear(input.to(self.lora_a.dtype), self.lora_a)
        return frozen + (F.linear(low, self.lora_b) * _ALPHA_PER_RANK).to(frozen.dtype)


def lora_tensors(layer: nn.Linear, rank: int, generator: Generator) -> dict[str, Tensor]:
    """Make a fresh pair: A is drawn like the weight of `nn.Linear`, B is 0 (the base's output).

    A is drawn on the CPU, so that a seed gives the same values on every device.
    """
    a = torch.empty(rank, layer.in_features)
    nn.init.kaiming_uniform_(a, a=math.sqrt(5), generator=generator)
    device = layer.weight.device
    return {LORA_A: a.to(device), LORA_B: torch.zeros(layer.out_features, rank, device=device)}


def wrap_linear(layer: nn.Module) -> None:
    """Make a layer of a private replica a `LoRALinear`; the caller sets its pair of tensors."""
    if not isinstance(layer, LoRALinear):
        layer.__class__ = LoRALinear
