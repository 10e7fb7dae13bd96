"""Open cases of quantization-aware training, part b."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function

from gradient_check.exam.case import Case, Questions, rows

questions = Questions("quantized")


@questions.healthy("surrogate", "rough")
def vq_autoencoder_with_both_terms_declared() -> Case:
    class Vq(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.decoder = nn.Linear(6, 3), nn.Linear(3, 6)
            self.codes = nn.Parameter(rows(4, 3))

        def forward(self, x: Tensor) -> Tensor:
            z = self.encoder(x)
            code = self.codes[torch.cdist(z, self.codes).argmin(1)]
            fixed_z = z.detach()
            fixed_code = code.detach()
            terms = (code - fixed_z).square() + 0.25 * (z - fixed_code).square()
            output = self.decoder(z + (code - z).detach())
            return (output - x).square().mean(1) + terms.mean(1)

    declared = ("fixed_z = ", "fixed_code = ")
    return Case(Vq(), rows(12, 6), lambda losses: losses, {"stop_gradients": declared})


@questions.fault(
    "backward", "train-forward", "inference-tensor", "base-changed", "alternating", "stale-forward"
)
def observer_that_keeps_its_graph() -> Case:
    class Observer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.largest: Tensor = torch.tensor(0.1)

        def forward(self, x: Tensor) -> Tensor:
            self.largest = 0.9 * self.largest + 0.1 * x.abs().max()  # fault: kept with its graph
            return torch.tanh(x / self.largest) * self.largest

    return Case(nn.Sequential(nn.Linear(6, 8), Observer(), nn.Linear(8, 2)), rows(5, 6))


@questions.healthy("rough")
def clip_mask_right() -> Case:
    class Clip(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, low: float, high: float) -> Tensor:
            ctx.save_for_backward((x >= low) & (x <= high))
            return x.clamp(low, high)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
            (inside,) = ctx.saved_tensors
            return grad * inside, None, None

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(6, 16)

        def forward(self, x: Tensor) -> Tensor:
            return Clip.apply(self.fc(x), -0.5, 0.9)

    return Case(nn.Sequential(Block(), nn.Linear(16, 2)), rows(8, 6))


@questions.fault("graph-cut")
def scale_wrapped_in_a_new_parameter() -> Case:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.linspace(0.5, 1.5, 8))

        def forward(self, x: Tensor) -> Tensor:
            positive = nn.Parameter(self.scale.abs())  # fault: a new leaf at each call
            return torch.tanh(x) * positive

    return Case(nn.Sequential(nn.Linear(6, 8), Scaled(), nn.Linear(8, 2)), rows(5, 6))


@questions.healthy("surrogate", "rough")
def bit_width_with_straight_through() -> Case:
    class LearnedBits(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bits = nn.Parameter(torch.tensor(3.2))

        def forward(self, x: Tensor) -> Tensor:
            whole = self.bits + (self.bits.round() - self.bits).detach()
            levels = 2**whole
            return torch.tanh(x * levels / 8) * 8 / levels

    return Case(nn.Sequential(nn.Linear(6, 8), LearnedBits(), nn.Linear(8, 2)), rows(5, 6))
