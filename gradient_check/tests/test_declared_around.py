"""A declared stop is found by any line or module between the loss and the stop, and no other is."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import Function

from gradient_check.check import check_gradients
from gradient_check.exam.known.hosts import rows


class Pair(nn.Module):
    """A net, and one whose values are the goal."""

    def __init__(self) -> None:
        super().__init__()
        self.online = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))
        self.target = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))

    @torch.no_grad()
    def codes(self, x: Tensor) -> Tensor:
        return self.target(x).softmax(-1)


def stop(x: Tensor) -> Tensor:
    return x.detach()


@contextlib.contextmanager
def frozen() -> Iterator[None]:
    with torch.no_grad():
        yield


def by_a_helper(m: Pair, x: Tensor) -> Tensor:
    goal = stop(m.target(x))
    return (m.online(x) - goal).square().mean(1)


def by_a_method(m: Pair, x: Tensor) -> Tensor:
    return (m.online(x) - m.codes(x)).square().mean(1)


def by_a_context(m: Pair, x: Tensor) -> Tensor:
    with frozen():
        goal = m.target(x)
    return (m.online(x) - goal).square().mean(1)


def over_lines(m: Pair, x: Tensor) -> Tensor:
    goal = (
        m.target(x)
        .tanh()
        .detach()
    )  # fmt: skip
    return (m.online(x) - goal).square().mean(1)


@torch.no_grad()
def sharp(z: Tensor) -> Tensor:
    codes = (2 * z).exp()
    return codes / codes.sum(-1, keepdim=True)


def swapped(m: Pair, x: Tensor) -> Tensor:
    one, two = m.online(x), m.target(-x)
    first, second = sharp(one), sharp(two)
    return -(first * two.log_softmax(-1) + second * one.log_softmax(-1)).sum(-1)


def twice(m: Pair, x: Tensor) -> Tensor:
    z = m.online(x)
    return (z - stop(z.roll(1, 0)) + stop(m.target(x))).square().mean(1)


@pytest.mark.parametrize(
    ("loss", "declared"),
    [
        (by_a_helper, "goal = stop("),
        (by_a_helper, "def stop"),
        (by_a_helper, "x.detach()"),
        (by_a_method, "m.codes(x)"),
        (by_a_method, "def codes"),
        (by_a_method, "@torch.no_grad()"),
        (by_a_method, "target.softmax|target"),
        (by_a_context, "with frozen()"),
        (by_a_context, "goal = m.target"),
        (by_a_context, "target"),
        (over_lines, "goal = ("),
        (over_lines, ".detach()"),
        (twice, "z - stop(z"),
        (swapped, "first, second ="),
        (swapped, "def sharp"),
        (swapped, "codes = (2 * z)"),
    ],
)
def test_a_stop_is_declared_by_any_line_or_module_around_it(
    loss: Callable[..., Tensor], declared: str
) -> None:
    torch.manual_seed(0)
    report = check_gradients(Pair(), rows(8, 6), loss, stop_gradients=[declared])
    assert report.passed
    assert {f.level for f in report.findings if f.code == "stop-gradient"} == {"NOTE"}


def second_stop(m: Pair, x: Tensor) -> Tensor:
    z, goal = m.online(x), m.target(x).detach()
    return (z - goal).square().mean(1) + weight_of(z) * z.square().mean(1)


def weight_of(z: Tensor) -> Tensor:
    return z.detach().square().mean(1)


@pytest.mark.parametrize("declared", ["goal = m.target(x).detach()", "def by_a_helper"])
def test_another_stop_than_the_declared_one_fails(declared: str) -> None:
    torch.manual_seed(0)
    report = check_gradients(Pair(), rows(8, 6), second_stop, stop_gradients=[declared])
    wrong = [f for f in report.findings if f.level == "FAIL"]
    assert any("z.detach().square()" in (f.line or "") for f in wrong)


def test_a_line_that_has_a_stop_of_its_own_declares_none_in_what_it_calls() -> None:
    torch.manual_seed(0)

    def loss(m: Pair, x: Tensor) -> Tensor:
        z = m.online(x)
        own = (z - m.target(x).detach()).square().mean(1) + weight_of(z) * z.square().mean(1)
        return own + 0 * z.mean(1)

    report = check_gradients(Pair(), rows(8, 6), loss, stop_gradients=["own = (z"])
    assert not report.passed


class Halved(Function):
    """Passes half of the gradient, with its sign turned."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return -0.5 * grads[0]


def halved(x: Tensor) -> Tensor:
    return Halved.apply(x)


class Domain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features, self.domain = nn.Linear(6, 8), nn.Linear(8, 1)

    def forward(self, x: Tensor) -> Tensor:
        turned = halved(torch.tanh(self.features(x)))
        return self.domain(turned)


@pytest.mark.parametrize(
    "declared",
    [
        {"reversed_gradients": {"turned = halved(": -0.5}},
        {"reversed_gradients": {"def halved": -0.5}},
        {"surrogate_gradients": ["turned = halved("]},
    ],
)
def test_a_slope_is_declared_by_the_line_that_calls_its_function(declared: dict[str, Any]) -> None:
    torch.manual_seed(0)
    report = check_gradients(Domain(), rows(8, 6), lambda y: y.square().mean(1), **declared)
    assert report.passed
    assert {f.level for f in report.findings if "gradient" in f.code or "surro" in f.code} == {
        "NOTE"
    }


class TwoHeads(Domain):
    """Reverses in a line that computes other things too."""

    def __init__(self) -> None:
        super().__init__()
        self.label = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.features(x))
        return torch.cat([self.label(h), self.domain(halved(h))], -1)


def test_a_line_that_calls_a_function_declares_nothing_of_its_other_calls() -> None:
    torch.manual_seed(0)
    report = check_gradients(
        TwoHeads(),
        rows(8, 6),
        lambda y: y.square().mean(1),
        reversed_gradients={"self.domain(halved(h))": -0.5},
    )
    assert report.passed
    assert [f.level for f in report.findings if f.code == "reversed-gradient"] == ["NOTE"]


@pytest.mark.parametrize("declared", ["goal = m.target(x).detach()", "rest = m.target"])
def test_a_stop_of_values_without_a_gradient_is_no_missing_one(declared: str) -> None:
    torch.manual_seed(0)

    def loss(m: Pair, x: Tensor) -> Tensor:
        m.target.requires_grad_(False)
        goal = m.target(x).detach()
        with torch.no_grad():
            rest = m.target(-x)
        return (m.online(x) - goal - rest).square().mean(1)

    report = check_gradients(
        Pair(), rows(8, 6), loss, trainable="online", stop_gradients=[declared]
    )
    assert report.passed
    assert "stop-gradient" not in report.codes


class Zeros(Function):
    """Gives what it gets, and no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return torch.zeros_like(grads[0])


@pytest.mark.parametrize("declared", ["goal = Zeros", "goal.register_hook"])
def test_a_stop_by_a_function_or_a_hook_is_declared_as_a_surrogate(declared: str) -> None:
    torch.manual_seed(0)

    def loss(m: nn.Module, x: Tensor) -> Tensor:
        z = m(x)
        goal = z.roll(1, 0)
        if "hook" not in declared:
            goal = Zeros.apply(goal)
        elif goal.requires_grad:
            goal.register_hook(torch.zeros_like)
        return (z - goal).square().mean(1)

    report = check_gradients(Pair().online, rows(8, 6), loss, surrogate_gradients=[declared])
    assert report.passed
    assert [f.level for f in report.findings if f.code == "surrogate"] == ["NOTE"]
