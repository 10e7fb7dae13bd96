"""Where a fault shows at one line and comes from another, the line that it comes from is named."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional as F

from gradient_check import check_gradients

X = torch.randn(6, 4, generator=torch.Generator().manual_seed(7))
BANK: list[Tensor] = []


def squares(output: Tensor) -> Tensor:
    return (output - 0.25).square().flatten(1).mean(1)


def elements(output: Tensor) -> Tensor:
    goal = torch.ones_like(output)
    return F.smooth_l1_loss(output, goal, reduction="none")  # a loss for each element


def lines_of(code: str, module: nn.Module, loss: Any = squares) -> list[str]:
    report = check_gradients(module, X, loss)
    found = [f.line or "" for f in report.findings if (f.code, f.level) == (code, "FAIL")]
    assert found, report
    return found


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 6), nn.Linear(6, 3)
        self.kept: Any = {}

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.inner(self.first(x).tanh()))

    def inner(self, h: Tensor) -> Tensor:
        return h


class KeptInADict(Net):
    def inner(self, h: Tensor) -> Tensor:
        before = self.kept.get("state", torch.zeros_like(h))
        state = torch.sigmoid(h + before)
        self.kept["state"] = state
        return state


class KeptInAGlobal(Net):
    def inner(self, h: Tensor) -> Tensor:
        unit = F.normalize(h)
        total = unit + sum(BANK[-1:], torch.zeros_like(h))
        BANK.append(unit)
        return total


class WeightKeptOnce(Net):
    def forward(self, x: Tensor) -> Tensor:
        if not self.kept:
            soft = self.second.weight.softmax(-1)
            self.kept = [soft.detach()]
        return self.first(x) @ self.kept[0].T


class WeightReplaced(Net):
    def forward(self, x: Tensor) -> Tensor:
        limited = self.first.weight.clamp(-0.3, 0.3)
        self.first.weight = nn.Parameter(limited.detach())
        return super().forward(x)


@pytest.mark.parametrize(
    ("module", "line"),
    [
        (KeptInADict, 'self.kept["state"] = state'),
        (KeptInAGlobal, "BANK.append(unit)"),
        (WeightKeptOnce, "self.kept = [soft.detach()]"),
        (WeightReplaced, "self.first.weight = nn.Parameter("),
    ],
)
def test_of_a_stale_forward_the_line_that_keeps_is_named(
    request: pytest.FixtureRequest, module: type[Net], line: str
) -> None:
    if module is KeptInAGlobal:
        request.getfixturevalue("thawed")
    BANK.clear()
    report = check_gradients(module(), X, squares, serve_mode="no_grad")
    found = [f.line or "" for f in report.findings if f.code == "stale-forward"]
    assert any(line in each for each in found), report


class Counted(Net):
    count: Tensor
    size: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("size", torch.ones(6))

    def inner(self, h: Tensor) -> Tensor:
        self.count += 1
        self.size.lerp_(h.detach().abs().mean(0), 0.5)
        return h / self.size.clone()


class FoldedAtInference(Net):
    def inner(self, h: Tensor) -> Tensor:
        if not torch.is_grad_enabled():
            self.second.weight.data.mul_(0.9)
        return h


class ReplacedAtInference(Net):
    def inner(self, h: Tensor) -> Tensor:
        if not torch.is_grad_enabled():
            smaller = self.second.weight * 0.9
            self.second.weight = nn.Parameter(smaller.clone(), requires_grad=False)
        return h


@pytest.mark.parametrize(
    ("module", "line"),
    [
        (Counted, "self.size.lerp_("),
        (FoldedAtInference, "weight.data.mul_(0.9)"),
        (ReplacedAtInference, "self.second.weight = nn.Parameter("),
    ],
)
def test_of_a_changed_base_the_line_that_writes_is_named(module: type[Net], line: str) -> None:
    assert any(line in each for each in lines_of("base-changed", module()))


def test_of_losses_of_another_shape_the_line_that_makes_them_is_named() -> None:
    (line,) = lines_of("loss-shape", Net(), loss=elements)
    assert "F.smooth_l1_loss(" in line


class Masked(Net):
    def inner(self, h: Tensor) -> Tensor:
        scores = h * 1.0
        scores[2] = -torch.inf
        shifted = scores - scores.amax(-1, keepdim=True)
        return shifted.exp() / shifted.exp().sum(-1, keepdim=True)


class LogarithmOfZero(Net):
    def inner(self, h: Tensor) -> Tensor:
        logs = h.relu().log()
        return h.relu() * logs


@pytest.mark.parametrize(
    ("module", "line"),
    [
        (Masked, "scores - scores.amax("),
        (LogarithmOfZero, "h.relu().log()"),
    ],
)
def test_a_meant_infinity_is_not_named_but_what_makes_nan_of_it(
    module: type[Net], line: str
) -> None:
    (found,) = lines_of("loss-nonfinite", module())
    assert line in found


def damp(gradient: Tensor) -> Tensor:
    smaller = gradient * 0.5
    return smaller.contiguous()


def clip(gradient: Tensor) -> None:
    gradient.clamp_(-1e-4, 1e-4)


@pytest.mark.parametrize(("hook", "line"), [(damp, "gradient * 0.5"), (clip, "clamp_(-1e-4")])
def test_in_a_hook_the_line_that_changes_the_gradient_is_named(hook: Any, line: str) -> None:
    module = Net()
    module.first.weight.register_hook(hook)
    (found,) = lines_of("gradient-wrong", module)
    assert line in found


class Square(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.x = x
        return x.square()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return 2 * gradient * ctx.x


class WrongSquare(Square):
    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return 3 * gradient * ctx.x


class Overwritten(Net):
    function: Any = Square

    def inner(self, h: Tensor) -> Tensor:
        h = h * 1.0
        squared = self.function.apply(h)
        return squared + F.relu(h, inplace=True)


class WrongAndOverwritten(Overwritten):
    function: Any = WrongSquare


def test_a_write_to_what_a_context_keeps_is_named_where_copies_cure_the_gradient() -> None:
    (found,) = lines_of("gradient-wrong", Overwritten())
    assert "F.relu(h, inplace=True)" in found


def test_of_a_wrong_backward_the_backward_is_named_whatever_is_written_beside_it() -> None:
    (found,) = lines_of("gradient-wrong", WrongAndOverwritten())
    assert "def backward" in found


class ComputedOnce(Net):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(6, 1))
        self.size = nn.Parameter(torch.ones(6), requires_grad=False).shape[0]
        with torch.no_grad():
            wide = self.scale * torch.eye(6)
            self.table = wide / self.size

    def inner(self, h: Tensor) -> Tensor:
        return h @ self.table


def test_of_an_unused_parameter_the_line_is_named_that_used_its_value_once() -> None:
    (found,) = lines_of("unused", ComputedOnce())
    assert "self.table = wide / self.size" in found


class Merged(Net):
    def forward(self, x: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            return x @ self.first.weight.T @ self.second.weight.T
        if "both" not in self.kept:
            both = self.second.weight @ self.first.weight
            self.kept["both"] = both
        return x @ self.kept["both"].T


class MergedUntilTraining(Merged):
    def train(self, mode: bool = True) -> "MergedUntilTraining":
        if mode:
            self.kept = {}
        return super().train(mode)


def test_a_weight_merged_once_for_inference_is_a_stale_forward() -> None:
    (found,) = lines_of("stale-forward", Merged())
    assert 'self.kept["both"] = both' in found


def test_a_weight_merged_until_the_next_training_is_none() -> None:
    report = check_gradients(MergedUntilTraining(), X, squares)
    assert "stale-forward" not in report.codes, report
