"""Where terms of a loss cancel, its rounding is measured: what is sound passes, mistakes fail."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gradient_check.check import check_gradients
from gradient_check.checks.loss_rounding import SHORT, rounding_of
from gradient_check.exam.known.hosts import rows
from gradient_check.instruments.directions import Direction

REAL, OTHER = rows(32, 6).chunk(2)
NEAR, FAR = (REAL, REAL + 0.05 * OTHER), (REAL, OTHER)


class Critic(nn.Module):
    """Scores around a large number; its first weights may be taken from elsewhere."""

    def __init__(self, lift: float, take: Callable[[Any, Tensor], Tensor] = lambda _, w: w) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.first, self.second = nn.Linear(6, 16), nn.Linear(16, 1)
        self.lift, self.take, self.kept = lift, take, dict[str, Tensor]()

    def forward(self, x: Tensor) -> Tensor:
        h = F.linear(x, self.take(self, self.first.weight), self.first.bias).tanh()
        return F.linear(h, self.take(self, self.second.weight), self.second.bias) + self.lift


def apart(critic: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    real, fake = batch
    return critic(fake).mean() - critic(real).mean()


def halved(_: Any, weight: Tensor) -> Tensor:
    return (weight + weight.detach()) / 2


def stale(critic: Any, weight: Tensor) -> Tensor:
    kept = critic.kept.setdefault(str(tuple(weight.shape)), weight.detach().clone())
    return kept + weight - weight.detach()


@pytest.mark.parametrize("lift", [30.0, 100.0, -300.0, 1000.0])
@pytest.mark.parametrize("rate", [1e-3, 1e-6])
def test_a_critic_whose_scores_cancel_passes(lift: float, rate: float) -> None:
    report = check_gradients(Critic(lift), NEAR, apart, learning_rate=rate)
    assert report.passed
    assert {f.code for f in report.findings if f.level == "WARN"} == {"dead"}  # of the last bias


@pytest.mark.parametrize("take", [halved, stale])
@pytest.mark.parametrize("lift", [30.0, 100.0, -300.0])
def test_a_mistake_in_a_critic_whose_scores_cancel_fails(
    take: Callable[[Any, Tensor], Tensor], lift: float
) -> None:
    with torch.no_grad():
        offset = apart(Critic(lift), FAR)
    report = check_gradients(Critic(lift, take), FAR, lambda m, b: apart(m, b) - offset)
    assert {f.code for f in report.findings if f.level == "FAIL"} & {
        *("gradient-wrong", "stale-forward")
    }


def test_a_mistake_below_the_rounding_of_scores_that_cancel_is_unverified() -> None:
    report = check_gradients(Critic(1000.0, halved), NEAR, apart)
    assert report.passed
    assert {"first.weight", "second.weight"} <= {*report.unverified}


class Policy(nn.Module):
    """Gives the logs of the chances of a sequence's next words."""

    def __init__(self, *, is_right: bool = True) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.words, self.cell = nn.Embedding(20, 12), nn.LSTM(12, 16, batch_first=True)
        self.head, self.is_right = nn.Linear(16, 20), is_right

    def forward(self, tokens: Tensor) -> Tensor:
        weight = self.head.weight
        weight = weight if self.is_right else halved(None, weight)
        logits = F.linear(self.cell(self.words(tokens[:, :-1]))[0], weight, self.head.bias)
        return logits.log_softmax(-1).gather(-1, tokens[:, 1:, None])[..., 0]


def first_step(policy: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    tokens, rewards = batch
    logs = policy(tokens)
    gains = (rewards - rewards.mean()) / (rewards.std() + 1e-4)
    return -((logs - logs.detach()).exp() * gains[:, None]).mean()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("is_right", [True, False])
def test_a_policys_first_step_passes_if_it_is_right(seed: int, *, is_right: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, 20, (4 + 2 * seed, 6 + seed), generator=generator)
    rewards = torch.rand(len(tokens), generator=generator).round(decimals=1)
    report = check_gradients(
        Policy(is_right=is_right),
        (tokens, rewards),
        first_step,
        stop_gradients="logs.detach()",
    )
    failed = [f.parameters for f in report.findings if f.level == "FAIL"]
    assert failed == ([] if is_right else [("head.weight",)])


@pytest.mark.parametrize(("lift", "least"), [(0.0, 0.0), (100.0, 5e-6), (1e4, 5e-4)])
def test_rounding_is_that_of_the_terms_whatever_the_slope(lift: float, least: float) -> None:
    weights = rows(40)
    kept = weights.clone()

    def forward() -> float:
        return float((weights.square().sum() / 40 + lift) - lift)

    size = SHORT * float(weights.norm())
    found = rounding_of(forward, [weights], [Direction(torch.full((40,), 40**-0.5))], size)
    assert least <= found <= max(8 * least, 1e-6)
    torch.testing.assert_close(weights, kept)


def test_a_loss_that_nothing_moves_has_no_rounding() -> None:
    weights = rows(40)
    assert rounding_of(lambda: 3.0, [weights], [Direction(torch.ones(40))], 1e-5) == 0.0
