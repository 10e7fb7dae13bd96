"""Open cases of custom autograd functions and hooks, part a."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function

from gradient_check.exam.case import Case, Questions, numbers, rows

questions = Questions("functions")


@questions.fault("gradient-wrong")
def rms_norm_without_the_term_of_the_norm() -> Case:
    class RmsNorm(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
            scale = (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
            ctx.save_for_backward(x, weight, scale)
            return x * scale * weight

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
            x, weight, scale = ctx.saved_tensors
            return grad * weight * scale, (grad * x * scale).sum(0)  # fault: scale moves with x

    class Norm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(5))

        def forward(self, x: Tensor) -> Tensor:
            return RmsNorm.apply(x, self.weight)  # fault in its backward

    return Case(nn.Sequential(nn.Linear(4, 5), Norm(), nn.Linear(5, 2)), rows(6, 4))


@questions.healthy()
def rms_norm_whole() -> Case:
    class RmsNorm(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
            scale = (x.square().mean(-1, keepdim=True) + eps).rsqrt()
            ctx.save_for_backward(x * scale, weight, scale)
            return x * scale * weight

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
            unit, weight, scale = ctx.saved_tensors
            inner = grad * weight
            for_x = scale * (inner - unit * (inner * unit).mean(-1, keepdim=True))
            return for_x, (grad * unit).flatten(0, -2).sum(0), None

    class Norm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(8))

        def forward(self, x: Tensor) -> Tensor:
            return RmsNorm.apply(x, self.weight, 1e-5)

    return Case(nn.Sequential(nn.Linear(4, 8), Norm(), nn.Linear(8, 2)), rows(3, 5, 4))


@questions.fault("gradient-wrong")
def broadcast_bias_given_the_mean_of_its_gradient() -> Case:
    class AddBias(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, bias: Tensor) -> Tensor:
            return x + bias

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
            return grad, grad.mean(0)  # fault: a broadcast sums

    class Biased(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.bias = nn.Parameter(rows(6, 8) * 0.3), nn.Parameter(torch.zeros(8))

        def forward(self, x: Tensor) -> Tensor:
            return torch.tanh(AddBias.apply(x @ self.weight, self.bias))  # fault in its backward

    return Case(nn.Sequential(Biased(), nn.Linear(8, 2)), rows(12, 6, seed=1))


@questions.healthy()
def fused_cross_entropy_with_ignored_tokens() -> Case:
    class FusedLoss(Function):
        @staticmethod
        def forward(ctx: Any, logits: Tensor, labels: Tensor) -> Tensor:
            kept = labels != -100
            logs = logits.log_softmax(-1)
            picked = logs.gather(-1, labels.clamp(min=0)[..., None]).squeeze(-1)
            ctx.save_for_backward(logs, labels, kept)
            return -(picked * kept).sum() / kept.sum()

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
            logs, labels, kept = ctx.saved_tensors
            one_hot = F.one_hot(labels.clamp(min=0), logs.shape[-1]).to(logs.dtype)
            return grad * (logs.exp() - one_hot) * kept[..., None] / kept.sum(), None

    class Lm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.head = nn.Embedding(11, 8), nn.Linear(8, 11)

        def forward(self, ids: Tensor, labels: Tensor) -> Tensor:
            return FusedLoss.apply(self.head(torch.tanh(self.embedding(ids))), labels)

    ids = numbers(11, 4, 6)
    return Case(Lm(), (ids, ids.roll(-1, 1).masked_fill(ids < 2, -100)), lambda loss: loss)


@questions.fault("gradient-wrong")
def rotary_turned_on_in_its_backward() -> Case:
    class Rotary(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
            ctx.save_for_backward(cos, sin)
            a, b = x.chunk(2, -1)
            return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
            cos, sin = ctx.saved_tensors
            a, b = grad.chunk(2, -1)
            return torch.cat([a * cos - b * sin, b * cos + a * sin], -1), None, None  # fault

    class Position(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inp, self.out = nn.Linear(8, 8), nn.Linear(8, 3)
            self.register_buffer("speeds", torch.tensor([1, 0.5, 0.3, 0.2]))

        def forward(self, x: Tensor) -> Tensor:
            angles = torch.arange(x.shape[1], dtype=x.dtype)[:, None] * self.speeds
            turned = Rotary.apply(self.inp(x), angles.cos(), angles.sin())  # fault in its backward
            return self.out(torch.tanh(turned))

    return Case(Position(), rows(3, 6, 8))


@questions.healthy("serve")
def gradient_penalty_through_a_function_of_its_own() -> Case:
    class Softplus(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return torch.log1p(x.exp())

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            (x,) = ctx.saved_tensors
            return grad * torch.sigmoid(x)

    class Critic(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(4, 12), nn.Linear(12, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(Softplus.apply(self.first(x)))

    def loss(module: nn.Module, x: Tensor) -> Tensor:
        x = x.clone().requires_grad_()
        value = module(x).squeeze(1)
        (slope,) = torch.autograd.grad(value.sum(), x, create_graph=True)
        return value.square() + (slope.square().sum(1) - 1).square()

    return Case(Critic(), rows(6, 4), loss)


@questions.fault("backward", "gradient-wrong")
def function_that_works_in_place_without_saying_so() -> Case:
    class Doubled(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            x.mul_(2)  # fault: no mark_dirty, and tanh's output is needed
            return x

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            return grad * 2

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inp, self.out = nn.Linear(4, 8), nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            hidden = torch.tanh(self.inp(x))  # fault shows here
            return self.out(Doubled.apply(hidden))  # fault within

    return Case(Net(), rows(6, 4))


@questions.healthy()
def function_with_a_generated_vmap_rule() -> Case:
    class Mish(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Tensor) -> Tensor:
            return x * torch.tanh(F.softplus(x))

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
            ctx.save_for_backward(inputs[0])

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            (x,) = ctx.saved_tensors
            soft = torch.tanh(F.softplus(x))
            return grad * (soft + x * (1 - soft.square()) * torch.sigmoid(x))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inp, self.out = nn.Linear(4, 8), nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.out(torch.vmap(Mish.apply)(self.inp(x)))

    return Case(Net(), rows(6, 4))
