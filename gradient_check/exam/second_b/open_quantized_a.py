"""Open cases of quantization-aware training, part a."""

from collections import OrderedDict
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function

from gradient_check.exam.case import Case, Questions, numbers, rows

questions = Questions("quantized")


@questions.fault("grad-zero")
def fake_quant_without_straight_through() -> Case:
    class QuantLinear(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            scale = 0.05
            weight = torch.round(self.weight / scale).clamp(-127, 127) * scale  # fault: no slope
            return F.linear(x, weight, self.bias)

    return Case(nn.Sequential(QuantLinear(6, 8), nn.Tanh(), nn.Linear(8, 3)), rows(5, 6))


@questions.healthy("surrogate", "rough")
def int8_weights_straight_through() -> Case:
    class QuantLinear(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            scale = self.weight.detach().abs().max() / 127
            rounded = (self.weight / scale).round() * scale
            weight = self.weight + (rounded - self.weight).detach()
            return F.linear(x, weight, self.bias)

    return Case(nn.Sequential(QuantLinear(6, 8), nn.Tanh(), QuantLinear(8, 3)), rows(5, 6))


@questions.fault("graph-cut")
def pact_alpha_taken_as_a_number() -> Case:
    class Pact(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.alpha = nn.Parameter(torch.tensor(0.6))

        def forward(self, x: Tensor) -> Tensor:
            return torch.clamp(x, 0.0, self.alpha.item())  # fault: the learned clip is a constant

    return Case(nn.Sequential(nn.Linear(6, 12), Pact(), nn.Linear(12, 2)), rows(8, 6))


@questions.healthy("rough")
def pact_by_absolute_values() -> Case:
    class Pact(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.alpha = nn.Parameter(torch.tensor(0.6))

        def forward(self, x: Tensor) -> Tensor:
            return 0.5 * (x.abs() - (x - self.alpha).abs() + self.alpha)

    return Case(nn.Sequential(nn.Linear(6, 12), Pact(), nn.Linear(12, 2)), rows(8, 6))


@questions.fault("base-changed")
def binary_net_that_clamps_its_weights_in_the_forward() -> Case:
    class Clamped(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            self.weight.data.clamp_(-0.2, 0.2)  # fault: belongs after the optimizer's step
            return F.linear(x, self.weight, self.bias)

    first, last = Clamped(6, 8), nn.Linear(8, 2)
    nn.init.normal_(first.weight, std=0.4)
    return Case(nn.Sequential(first, nn.Tanh(), last), rows(5, 6))


@questions.healthy("rough")
def binary_weight_times_mean_magnitude() -> Case:
    class BinaryWeight(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            magnitude = self.weight.abs().mean(1, keepdim=True)
            return F.linear(x, torch.sign(self.weight) * magnitude, self.bias)

    return Case(nn.Sequential(BinaryWeight(6, 8), nn.Tanh(), nn.Linear(8, 2)), rows(5, 6))


@questions.fault("gradient-wrong")
def int8_matmul_whose_backward_misses_the_scale() -> Case:
    class Int8Matmul(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
            scale = weight.abs().amax() / 127
            levels = (weight / scale).round()
            ctx.save_for_backward(x, levels)
            return x @ (levels * scale).t()

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
            x, levels = ctx.saved_tensors
            return grad @ levels / 127, grad.t() @ x  # fault: 1/127 is not the scale

    class Int8Linear(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return Int8Matmul.apply(x, self.weight) + self.bias  # fault is in its backward

    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), Int8Linear(16, 3))
    return Case(model, rows(5, 6))


@questions.healthy()
def int8_base_with_trained_scales_and_an_adapter() -> Case:
    class Int8Lora(nn.Module):
        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            self.register_buffer("levels", (numbers(255, outputs, inputs) - 127).to(torch.int8))
            self.scale = nn.Parameter(torch.full((outputs, 1), 0.004))
            self.down = nn.Parameter(rows(2, inputs) * 0.3)
            self.up = nn.Parameter(torch.zeros(outputs, 2))

        def forward(self, x: Tensor) -> Tensor:
            weight = self.levels.to(x.dtype) * self.scale
            return x @ weight.t() + (x @ self.down.t()) @ self.up.t()

    return Case(nn.Sequential(Int8Lora(6, 8), nn.Tanh(), Int8Lora(8, 3)), rows(5, 6))


@questions.fault("graph-cut")
def adaround_in_its_hard_form_during_training() -> Case:
    class AdaRound(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            weight = rows(8, 6) * 0.3
            self.register_buffer("floor", torch.floor(weight / 0.1))
            self.rest = nn.Parameter(weight / 0.1 - self.floor - 0.5)

        def forward(self, x: Tensor) -> Tensor:
            up = (self.rest >= 0).to(x.dtype)  # fault: a comparison has no gradient
            return x @ ((self.floor + up) * 0.1).t()

    return Case(nn.Sequential(AdaRound(), nn.Tanh(), nn.Linear(8, 2)), rows(5, 6))


@questions.healthy("rough")
def builtin_fake_quantize_declared_by_path() -> Case:
    class FakeQuant(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.fake_quantize_per_tensor_affine(x, 0.02, 0, -128, 127)

    model = nn.Sequential(
        OrderedDict(fc=nn.Linear(6, 8), act=nn.Tanh(), fq=FakeQuant(), out=nn.Linear(8, 2))
    )
    return Case(model, rows(5, 6), options={"surrogate_gradients": ("fq",)})


@questions.fault("gradient-wrong")
def scale_gradient_damped_by_a_hook() -> Case:
    class ScaledLevels(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("levels", (numbers(16, 8, 6) - 8).float())
            self.scale = nn.Parameter(torch.full((8, 1), 0.1))

        def forward(self, x: Tensor) -> Tensor:
            scale = self.scale * 1.0
            if scale.requires_grad:
                scale.register_hook(lambda grad: grad / 48**0.5)  # fault: not declared
            return x @ (self.levels * scale).t()

    return Case(nn.Sequential(ScaledLevels(), nn.Tanh(), nn.Linear(8, 2)), rows(5, 6))


@questions.healthy("surrogate", "rough")
def quantization_noise_on_a_random_part_of_the_weights() -> Case:
    class QuantNoise(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            weight = self.weight
            if self.training:
                rounded = (weight * 32).round() / 32
                chosen = torch.rand_like(weight) < 0.5
                weight = weight + (torch.where(chosen, rounded, weight) - weight).detach()
            return F.linear(x, weight, self.bias)

    model = nn.Sequential(QuantNoise(6, 8), nn.Tanh(), nn.Linear(8, 2))
    return Case(model, rows(5, 6), options={"random_loss": True})


@questions.fault("gradient-wrong")
def largest_weight_read_past_autograd() -> Case:
    class MaxNormed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(rows(3, 4, seed=3))

        def forward(self, x: Tensor) -> Tensor:
            squashed = torch.tanh(self.weight)
            unit = squashed / squashed.abs().mean().data  # fault: its slope is left out
            return x @ unit.t()

    return Case(nn.Sequential(MaxNormed(), nn.Tanh(), nn.Linear(3, 2)), rows(6, 4))


@questions.healthy()
def soft_quantizer_of_sigmoid_steps() -> Case:
    class SoftSteps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.log_scale = nn.Parameter(torch.tensor(-0.5))
            self.thresholds = nn.Parameter(torch.linspace(-1, 1, 5))
            self.sharpness = nn.Parameter(torch.tensor(4.0))

        def forward(self, x: Tensor) -> Tensor:
            steps = torch.sigmoid(self.sharpness * (x[..., None] - self.thresholds))
            return self.log_scale.exp() * (steps.sum(-1) - 2.5)

    return Case(nn.Sequential(nn.Linear(6, 8), SoftSteps(), nn.Linear(8, 2)), rows(5, 6))


@questions.fault("graph-cut")
def codebook_detached_where_the_encoder_was_meant() -> Case:
    class Vq(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.decoder = nn.Linear(6, 3), nn.Linear(3, 6)
            self.codes = nn.Parameter(rows(8, 3))

        def forward(self, x: Tensor) -> Tensor:
            z = self.encoder(x)
            code = self.codes[torch.cdist(z, self.codes).argmin(1)].detach()  # fault
            commitment = (z - code).square().mean(1)
            output = self.decoder(z + (code - z).detach())
            return (output - x).square().mean(1) + 0.25 * commitment

    return Case(Vq(), rows(12, 6), loss=lambda losses: losses)
