"""Reinforcement learning: the open half."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Categorical
from torch.nn import functional as F

from gradient_check.exam.case import Case, Questions, numbers, rows
from gradient_check.exam.second.parts import mlp

questions = Questions("reinforcement learning")


@questions.fault("gradient-wrong")
def recurrent_policy_forgets_its_graph() -> Case:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.GRUCell(4, 12)
            self.head = nn.Linear(12, 3)

        def forward(self, steps: Tensor) -> Tensor:
            hidden = steps.new_zeros(len(steps), 12)
            logits = []
            for step in steps.unbind(1):
                hidden = self.cell(step, hidden.detach())  # fault
                logits.append(self.head(hidden))
            return torch.stack(logits, 1)

    def loss(policy: nn.Module, batch: Any) -> Tensor:
        steps, actions, returns = batch
        log_probs = Categorical(logits=policy(steps)).log_prob(actions)
        return -(log_probs * returns).mean(1)

    batch = (rows(5, 6, 4), numbers(3, 5, 6), rows(5, 6, seed=2))
    return Case(Recurrent(), batch, loss)


@questions.healthy()
def recurrent_policy_through_time() -> Case:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.LSTMCell(4, 10)
            self.head = nn.Linear(10, 3)
            self.start = nn.Parameter(torch.zeros(2, 10))

        def forward(self, steps: Tensor, done: Tensor) -> Tensor:
            state = tuple(part.expand(len(steps), -1) for part in self.start)
            logits = []
            for step, end in zip(steps.unbind(1), done.unbind(1), strict=True):
                state = self.cell(step, tuple(part * (1 - end[:, None]) for part in state))
                logits.append(self.head(state[0]))
            return torch.stack(logits, 1)

    def loss(policy: nn.Module, batch: Any) -> Tensor:
        steps, done, actions, returns = batch
        log_probs = Categorical(logits=policy(steps, done)).log_prob(actions)
        return -(log_probs * returns).mean(1)

    done = (numbers(4, 5, 6, seed=1) == 0).to(torch.get_default_dtype())
    done[:, 0] = 0
    return Case(Recurrent(), (rows(5, 6, 4), done, numbers(3, 5, 6), rows(5, 6, seed=2)), loss)


@questions.fault("graph-cut", "grad-none")
def critic_sees_the_best_action_only() -> Case:
    class Agent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.actor, self.critic = mlp(4, 16, 3), mlp(7, 16, 1)

        def forward(self, states: Tensor) -> Tensor:
            logits = self.actor(states) * 20
            action = F.one_hot(logits.argmax(-1), 3).to(states.dtype)  # fault
            return self.critic(torch.cat([states, action], -1)).squeeze(-1)

    return Case(Agent(), rows(64, 4), lambda value: -value)


@questions.healthy()
def ddpg_actor_loss() -> Case:
    class Ddpg(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.actor, self.critic = mlp(4, 16, 2), mlp(6, 16, 1)

        def forward(self, states: Tensor) -> Tensor:
            actions = torch.tanh(self.actor(states))
            penalty = 0.01 * actions.square().sum(-1)
            return self.critic(torch.cat([states, actions], -1)).squeeze(-1) - penalty

    return Case(Ddpg(), rows(8, 4), lambda value: -value)


@questions.fault("unused")
def second_critic_is_not_trained() -> Case:
    class Twin(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = mlp(6, 16, 1), mlp(6, 16, 1)

        def forward(self, pairs: Tensor) -> tuple[Tensor, Tensor]:
            return self.first(pairs).squeeze(-1), self.second(pairs).squeeze(-1)

    def loss(model: nn.Module, batch: Any) -> Tensor:
        pairs, goals = batch
        first, second = model(pairs)
        return (F.mse_loss(first, goals) + F.mse_loss(first, goals)) / 2

    return Case(Twin(), (rows(8, 6), rows(8, seed=2)), loss)


@questions.healthy("frozen")
def td3_critics_with_smoothed_target() -> Case:
    class Td3(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.critics = nn.ModuleList(mlp(6, 16, 1) for _ in range(2))
            self.target_actor = mlp(4, 16, 2).requires_grad_(False)
            self.target_critics = nn.ModuleList(mlp(6, 16, 1) for _ in range(2))
            self.target_critics.requires_grad_(False)

        def forward(self, pairs: Tensor) -> Tensor:
            return torch.cat([critic(pairs) for critic in self.critics], -1)

        def goal(self, rewards: Tensor, following: Tensor) -> Tensor:
            with torch.no_grad():
                action = torch.tanh(self.target_actor(following))
                noise = (0.2 * torch.randn_like(action)).clamp(-0.5, 0.5)
                pairs = torch.cat([following, (action + noise).clamp(-1, 1)], -1)
                values = torch.cat([critic(pairs) for critic in self.target_critics], -1)
                return rewards + 0.98 * values.amin(-1)

    def loss(td3: nn.Module, batch: Any) -> Tensor:
        pairs, rewards, following = batch
        goal = td3.goal(rewards, following)
        return (td3(pairs) - goal[:, None]).square().sum(-1).mean()

    batch = (rows(8, 6), rows(8, seed=2), rows(8, 4, seed=4))
    stops = (r"target_actor(\..*)?", r"target_critics(\..*)?")
    return Case(Td3(), batch, loss, {"random_loss": True, "stop_gradients": stops})


@questions.fault("gradient-wrong")
def ratios_clipped_in_their_data() -> Case:
    def loss(policy: nn.Module, batch: Any) -> Tensor:
        states, actions, old_log_probs, advantages = batch
        log_probs = Categorical(logits=policy(states)).log_prob(actions)
        ratio = (log_probs - old_log_probs).exp()
        ratio.data.clamp_(0.8, 1.2)  # fault
        return -(ratio * advantages).mean()

    old = torch.tensor([-1.0, -3.0, -0.5, -2.5, -1.1, -0.3, -1.0, -4.0])
    batch = (rows(8, 5), numbers(3, 8), old, rows(8, seed=2))
    return Case(mlp(5, 16, 3), batch, loss)


@questions.healthy()
def entropy_of_allowed_actions() -> Case:
    def loss(policy: nn.Module, batch: Any) -> Tensor:
        states, allowed, actions = batch
        log_probs = policy(states).masked_fill(~allowed, -1e9).log_softmax(-1)
        kept = log_probs.masked_fill(~allowed, 0.0)
        entropy = -(kept.exp() * allowed * kept).sum(-1)
        return -log_probs.gather(1, actions[:, None]).squeeze(1) - 0.05 * entropy

    allowed = torch.tensor([[True, True, False, True]] * 8)
    return Case(mlp(5, 16, 4), (rows(8, 5), allowed, numbers(2, 8)), loss)
