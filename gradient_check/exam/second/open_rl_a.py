"""Reinforcement learning: the open half."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Categorical, Normal
from torch.nn import functional as F

from gradient_check.exam.case import Case, Questions, numbers, rows
from gradient_check.exam.second.parts import mlp

questions = Questions("reinforcement learning")


@questions.fault("no-gradient", "graph-cut")
def reinforce_with_items() -> Case:
    def loss(policy: nn.Module, batch: Any) -> Tensor:
        states, actions, returns = batch
        log_probs = F.log_softmax(policy(states), 1)
        chosen = [log_probs[i, a].item() for i, a in enumerate(actions)]  # fault
        return -(torch.tensor(chosen, requires_grad=True) * returns).mean()

    return Case(mlp(6, 16, 4), (rows(8, 6), numbers(4, 8), rows(8, seed=3)), loss)


@questions.healthy("rows-depend")
def reinforce_with_given_returns() -> Case:
    def loss(policy: nn.Module, batch: Any) -> Tensor:
        states, actions, returns = batch
        log_probs = Categorical(logits=policy(states)).log_prob(actions)
        return -log_probs * (returns - returns.mean()) / (returns.std() + 1e-8)

    return Case(mlp(6, 16, 4), (rows(8, 6), numbers(4, 8), rows(8, seed=3)), loss)


@questions.fault("graph-cut", "grad-none")
def critic_loss_of_detached_value() -> Case:
    class ActorCritic(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.actor = mlp(5, 16, 3)
            self.critic = mlp(5, 16, 1)

        def forward(self, states: Tensor) -> tuple[Tensor, Tensor]:
            return self.actor(states), self.critic(states).squeeze(-1)

    def loss(model: nn.Module, batch: Any) -> Tensor:
        states, actions, returns = batch
        logits, value = model(states)
        value = value.detach()  # fault
        policy_loss = -(Categorical(logits=logits).log_prob(actions) * (returns - value)).mean()
        return policy_loss + 0.5 * F.mse_loss(value, returns)

    batch = (rows(8, 5), numbers(3, 8), rows(8, seed=2))
    return Case(ActorCritic(), batch, loss)


@questions.healthy()
def a2c_with_baseline() -> Case:
    class ActorCritic(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.torso = nn.Sequential(nn.Linear(5, 16), nn.Tanh())
            self.actor, self.critic = nn.Linear(16, 3), nn.Linear(16, 1)

        def forward(self, states: Tensor) -> tuple[Tensor, Tensor]:
            hidden = self.torso(states)
            return self.actor(hidden), self.critic(hidden).squeeze(-1)

    def loss(model: nn.Module, batch: Any) -> Tensor:
        states, actions, returns = batch
        logits, values = model(states)
        distribution = Categorical(logits=logits)
        advantages = returns - values.detach()
        policy_loss = -(distribution.log_prob(actions) * advantages).mean()
        return (
            policy_loss + 0.5 * F.mse_loss(values, returns) - 0.01 * distribution.entropy().mean()
        )

    batch = (rows(8, 5), numbers(3, 8), rows(8, seed=2))
    return Case(ActorCritic(), batch, loss, {"stop_gradients": ("values.detach()",)})


@questions.fault("gradient-wrong")
def bootstrapping_undeclared() -> Case:
    def loss(net: nn.Module, batch: Any) -> Tensor:
        states, actions, rewards, following = batch
        chosen = net(states).gather(1, actions[:, None]).squeeze(1)
        with torch.no_grad():  # fault
            goal = rewards + 0.99 * net(following).amax(1)  # fault
        return F.mse_loss(chosen, goal)

    batch = (rows(8, 4), numbers(3, 8), rows(8, seed=2), rows(8, 4, seed=4))
    return Case(mlp(4, 16, 3), batch, loss)


@questions.healthy("frozen")
def double_dqn_frozen_target_undeclared() -> Case:
    class Agent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.online = mlp(4, 24, 3)
            self.target = mlp(4, 24, 3)
            self.target.load_state_dict(self.online.state_dict())
            for parameter in self.target.parameters():
                parameter.requires_grad = False

        def forward(self, states: Tensor) -> Tensor:
            return self.online(states)

        @torch.no_grad()
        def goal(self, rewards: Tensor, following: Tensor) -> Tensor:
            best = self.online(following).argmax(1, keepdim=True)
            return rewards + 0.95 * self.target(following).gather(1, best).squeeze(1)

    def loss(agent: nn.Module, batch: Any) -> Tensor:
        states, actions, rewards, following = batch
        chosen = agent(states).gather(1, actions[:, None]).squeeze(1)
        return F.mse_loss(chosen, agent.goal(rewards, following))

    batch = (rows(8, 4), numbers(3, 8), rows(8, seed=2), rows(8, 4, seed=4))
    return Case(Agent(), batch, loss)


@questions.fault("gradient-wrong", "graph-cut")
def sac_actor_sampled_without_path() -> Case:
    class Sac(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mean, self.log_std = mlp(4, 16, 2), mlp(4, 16, 2)
            self.critic = mlp(6, 16, 1)

        def forward(self, states: Tensor) -> tuple[Tensor, Tensor]:
            distribution = Normal(self.mean(states), self.log_std(states).exp())
            action = distribution.sample()  # fault
            return action, distribution.log_prob(action).sum(-1)

    def loss(sac: nn.Module, states: Tensor) -> Tensor:
        action, log_prob = sac(states)
        return (0.2 * log_prob - sac.critic(torch.cat([states, action], -1)).squeeze(-1)).mean()

    return Case(Sac(), rows(8, 4), loss, {"random_loss": True})


@questions.healthy()
def temperature_beside_constant_entropy() -> Case:
    class Soft(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.actor = mlp(4, 16, 3)
            self.log_alpha = nn.Parameter(torch.tensor(-0.5))

        def forward(self, states: Tensor) -> Tensor:
            return self.actor(states)

    def loss(model: nn.Module, batch: Any) -> Tensor:
        states, q_values = batch
        log_probs = model(states).log_softmax(-1)
        probs = log_probs.exp()
        alpha = model.log_alpha.detach().exp()
        actor_loss = (probs * (alpha * log_probs - q_values)).sum(-1).mean()
        entropy = -(probs * log_probs).sum(-1).mean().detach()
        return actor_loss + model.log_alpha.exp() * (entropy - 0.5)

    stops = ("model.log_alpha.detach()", "entropy = ")
    return Case(Soft(), (rows(8, 4), rows(8, 3, seed=2)), loss, {"stop_gradients": stops})
