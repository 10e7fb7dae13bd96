"""Reinforcement learning: the open half."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.distributions import Categorical, Normal
from torch.nn import functional as F

from gradient_check.exam.case import Case, Questions, numbers, rows
from gradient_check.exam.second.parts import mlp

questions = Questions("reinforcement learning")


@questions.fault("gradient-wrong")
def discounted_values_through_numpy() -> Case:
    class Critic(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = mlp(4, 16, 1)

        def forward(self, states: Tensor) -> Tensor:
            return self.net(states).squeeze(-1)

    def n_step(values: Tensor, rewards: Tensor) -> Tensor:
        goals = values.detach().numpy().copy()  # fault
        for step in range(len(goals) - 2, -1, -1):
            goals[step] = rewards[step].numpy() + 0.9 * goals[step + 1]
        return torch.from_numpy(goals)

    def loss(critic: nn.Module, batch: Any) -> Tensor:
        states, rewards = batch
        values = critic(states)
        return (values - n_step(values, rewards)).square().mean()

    return Case(Critic(), (rows(6, 5, 4), rows(6, 5, seed=2)), loss)


@questions.healthy()
def ppo_whole_loss() -> Case:
    class ActorCritic(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.actor, self.critic = mlp(6, 24, 4), mlp(6, 24, 1)

        def forward(self, states: Tensor) -> tuple[Tensor, Tensor]:
            return self.actor(states), self.critic(states).squeeze(-1)

    def loss(model: nn.Module, batch: Any) -> Tensor:
        states, actions, old_log_probs, returns = batch
        logits, values = model(states)
        with torch.no_grad():
            advantages = returns - values
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        distribution = Categorical(logits=logits)
        ratio = (distribution.log_prob(actions) - old_log_probs).exp()
        surrogate = torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()
        value_loss = F.smooth_l1_loss(values, returns)
        return -surrogate + 0.5 * value_loss - 0.01 * distribution.entropy().mean()

    old = -1.4 + 0.05 * rows(8, seed=5)
    batch = (rows(8, 6) * 0.3, numbers(4, 8), old, rows(8, seed=2))
    stops = ("advantages = returns - values",)
    return Case(ActorCritic(), batch, loss, {"stop_gradients": stops})


@questions.fault("unregistered")
def spread_in_plain_attribute() -> Case:
    class Gaussian(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mean = mlp(5, 16, 2)
            self.log_std = torch.zeros(2, requires_grad=True)  # fault

        def forward(self, states: Tensor) -> Tensor:
            return self.mean(states)

    def loss(policy: nn.Module, batch: Any) -> Tensor:
        states, actions, advantages = batch
        mean = policy(states)
        log_std = policy.log_std.expand_as(mean)  # fault
        scaled = (actions - mean) * torch.exp(-log_std)
        return -((-0.5 * scaled.square() - log_std).sum(-1) * advantages).mean()

    return Case(Gaussian(), (rows(8, 5), rows(8, 2, seed=2), rows(8, seed=3)), loss)


@questions.healthy()
def ensemble_with_a_lower_bound() -> Case:
    class Ensemble(nn.Module):
        def __init__(self, count: int = 4) -> None:
            super().__init__()
            self.critics = nn.ModuleList(mlp(6, 12, 1) for _ in range(count))

        def forward(self, pairs: Tensor) -> Tensor:
            values = torch.cat([critic(pairs) for critic in self.critics], -1)
            return values.mean(-1) - 0.5 * values.std(-1)

    def loss(model: nn.Module, batch: Any) -> Tensor:
        pairs, goals = batch
        return F.huber_loss(model(pairs), goals, reduction="none", delta=2.0)

    return Case(Ensemble(), (rows(8, 6), rows(8, seed=2)), loss)


@questions.fault("gradient-wrong")
def squashed_spread_with_wrong_backward() -> Case:
    class Squash(Function):
        @staticmethod
        def forward(ctx: Any, raw: Tensor) -> Tensor:
            squashed = torch.tanh(raw)
            ctx.save_for_backward(squashed)
            return -2 + 3 * squashed

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
            (squashed,) = ctx.saved_tensors
            return grad * (1 - squashed.square())  # fault: the factor 3 is left out

    class Gaussian(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mean, self.spread = mlp(5, 16, 2), mlp(5, 16, 2)

        def forward(self, states: Tensor) -> tuple[Tensor, Tensor]:
            return self.mean(states), Squash.apply(self.spread(states))  # fault

    def loss(policy: nn.Module, batch: Any) -> Tensor:
        states, actions, advantages = batch
        mean, log_std = policy(states)
        log_probs = Normal(mean, log_std.exp()).log_prob(actions).sum(-1)
        return -(log_probs * advantages).mean() / 20

    batch = (rows(8, 5), rows(8, 2, seed=2) * 0.3, rows(8, seed=3) + 1)
    return Case(Gaussian(), batch, loss)


@questions.healthy()
def dueling_with_layer_norm() -> Case:
    class Dueling(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.torso = nn.Sequential(nn.Linear(4, 24), nn.LayerNorm(24), nn.SiLU())
            self.value, self.advantage = nn.Linear(24, 1), nn.Linear(24, 4)

        def forward(self, states: Tensor) -> Tensor:
            hidden = self.torso(states)
            advantage = self.advantage(hidden)
            return self.value(hidden) + advantage - advantage.mean(1, keepdim=True)

    def loss(values: Tensor) -> Tensor:
        return (values - torch.tensor([1.0, -0.5, 0.25, 0.0])).square().mean(1)

    return Case(Dueling(), rows(8, 4), loss)
