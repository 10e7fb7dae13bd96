"""Faults that users make in plain PyTorch, each with what must be said."""

import torch
from torch import nn

from tests.cog_adapt.runner.gradients.cases import Faults, squares

FAULTS = Faults()
fault = FAULTS.model
PADDED = torch.tensor([[3, 4, 5, 0, 0], [6, 7, 0, 0, 0]])


class Shrinking(torch.autograd.Function):
    """The identity with a gradient that is a tenth too small."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return g * 0.9


class Shrunk(nn.Module):
    def forward(self, x):
        return Shrinking.apply(x)


@fault("gradient-wrong", "2 (Shrunk)", "def backward", probe=PADDED)
def behind_a_padded_embedding():
    return nn.Sequential(
        nn.Embedding(10, 8, padding_idx=0), nn.Linear(8, 8), Shrunk(), nn.Linear(8, 3)
    )


class Encoder(nn.Module):
    """An encoder that somebody once wrote for inference alone."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)

    @torch.inference_mode()
    def forward(self, x):
        return torch.tanh(self.linear(x))


@fault("train-forward", "0 (Encoder)", "inference_mode")
def encoder_in_inference_mode():
    return nn.Sequential(Encoder(), nn.Linear(6, 2))


OTHER = nn.Linear(6, 2)


def by_a_global(module, x):
    return squares(OTHER(x))


@fault("unused", None, "squares(OTHER(x))", loss=by_a_global)
def loss_by_a_global():
    return nn.Linear(6, 2)
