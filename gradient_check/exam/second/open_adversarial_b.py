"""Adversarial and domain training: the open half."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional as F

from gradient_check.exam.case import Case, Questions, numbers, rows
from gradient_check.exam.second.parts import mlp

questions = Questions("adversarial and domain")


@questions.fault("no-gradient", "graph-cut", "grad-none", "backward")
def perturbed_inputs_in_no_grad() -> Case:
    def attack(model: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
        x = x.clone().requires_grad_()
        with torch.enable_grad():
            value = F.cross_entropy(model(x), labels)
        return (x + 0.1 * torch.autograd.grad(value, x)[0].sign()).detach()

    @torch.no_grad()  # fault
    def loss(model: nn.Module, batch: Any) -> Tensor:
        x, labels = batch
        return F.cross_entropy(model(attack(model, x, labels)), labels)  # fault

    return Case(mlp(6, 24, 3), (rows(8, 6), numbers(3, 8)), loss)


@questions.healthy("serve", "stop-gradient")
def free_lb_on_embeddings() -> Case:
    class Text(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(30, 12)
            self.body = mlp(12, 16, 2)

        def forward(self, words: Tensor) -> Tensor:
            return self.body(words.mean(1))

    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.text = Text()

        def forward(self, tokens: Tensor) -> Tensor:
            return self.text(self.text.embedding(tokens))

    def loss(model: nn.Module, batch: Any) -> Tensor:
        tokens, labels = batch
        words = model.text.embedding(tokens)
        probe = words.detach().requires_grad_()
        found = F.cross_entropy(model.text(probe), labels)
        (slope,) = torch.autograd.grad(found, probe)
        shift = (0.3 * slope / (slope.norm() + 1e-8)).detach()
        return F.cross_entropy(model.text(words + shift), labels)

    stops = {"stop_gradients": ("shift =", "probe =")}
    return Case(Whole(), (numbers(30, 6, 5), numbers(2, 6)), loss, stops)


@questions.fault("gradient-wrong")
def virtual_adversarial_target_undeclared() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = mlp(6, 24, 3)

        def forward(self, x: Tensor) -> Tensor:
            return 3 * self.body(x)

    def loss(model: nn.Module, batch: Any) -> Tensor:
        x, direction = batch
        goal = model(x).softmax(-1).data  # fault
        moved = model(x + 2 * F.normalize(direction, dim=-1)).log_softmax(-1)
        return F.kl_div(moved, goal, reduction="none").sum(-1)

    return Case(Net(), (rows(8, 6), rows(8, 6, seed=2)), loss)


@questions.healthy()
def gradient_scaled_down_before_a_side_task() -> Case:
    class Scale(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
            ctx.factor = factor
            return x.view_as(x)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
            return grad * ctx.factor, None

    class Damped(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return Scale.apply(x, 0.1)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.torso, self.main, self.side = mlp(8, 24, 12), nn.Linear(12, 3), nn.Linear(12, 4)
            self.damped = Damped()

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            hidden = self.torso(x)
            return self.main(hidden), self.side(self.damped(hidden))

    def loss(outputs: tuple[Tensor, Tensor]) -> Tensor:
        by_main = F.cross_entropy(outputs[0], torch.arange(9) % 3)
        return by_main + F.cross_entropy(outputs[1], torch.arange(9) % 4)

    return Case(Model(), rows(9, 8), loss, {"reversed_gradients": {"damped": 0.1}})


@questions.fault("loss-nonfinite", "grad-nonfinite")
def saturating_loss_of_a_sure_critic() -> Case:
    class Gan(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.generator, self.critic = mlp(6, 24, 12), nn.Linear(12, 1)
            nn.init.constant_(self.critic.bias, 60.0)

        def forward(self, noise: Tensor) -> Tensor:
            return torch.sigmoid(self.critic(self.generator(noise)))

    return Case(Gan(), rows(8, 6), lambda score: torch.log(1 - score).mean())  # fault


@questions.healthy()
def least_squares_gan_with_noise() -> Case:
    class Gan(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.generator, self.critic = mlp(6, 24, 12), mlp(12, 24, 1)

        def forward(self, real: Tensor) -> Tensor:
            return self.critic(real)

    def loss(gan: nn.Module, real: Tensor) -> Tensor:
        noise = torch.randn(len(real), 6, dtype=real.dtype)
        fake = torch.tanh(gan.generator(noise))
        return (gan(fake) - 1).square().mean() / 2

    return Case(Gan(), rows(8, 12), loss, {"random_loss": True})


@questions.fault("unused")
def cycle_of_one_generator_only() -> Case:
    class Cycle(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.there, self.back = mlp(8, 16, 8), mlp(8, 16, 8)
            self.critic_there, self.critic_back = mlp(8, 16, 1), mlp(8, 16, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.back(self.there(x))

    def loss(cycle: nn.Module, batch: Any) -> Tensor:
        one, two = batch
        fake_two, fake_one = cycle.there(one), cycle.back(two)
        fooled = F.softplus(-cycle.critic_there(fake_two)) + F.softplus(
            -cycle.critic_there(fake_one)
        )
        again = (cycle.back(fake_two) - one).square().mean(1, keepdim=True)
        return (fooled + again).squeeze(1)

    return Case(Cycle(), (rows(8, 8), rows(8, 8, seed=2)), loss)
