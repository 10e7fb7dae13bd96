"""Faults of a run: what a forward keeps and switches, its loss, its optimizer."""

import torch
from torch import Tensor, nn

from gradient_check.exam.case import ModuleQuestions
from gradient_check.exam.known.hosts import PLAIN, Block, Tower

questions = ModuleQuestions("runs", Tower, "blocks.1", **PLAIN)
block = questions.faulty_part
fault = questions.faulty


@fault("train-forward", place="blocks.1", line="missing")
def raising_forward() -> nn.Module:
    class Raises(Block):
        def spoil(self, h):
            if self.training:
                return h.missing
            return h

    return Tower(Raises())


class _Cached(Block):
    table: dict[str, Tensor] = {}

    def spoil(self, h):
        if "mask" not in self.table:
            self.table["mask"] = torch.ones(6)
        return h * self.table["mask"]


@fault("train-forward", place="blocks.1", line='self.table["mask"] = torch.ones(6)')
def cache_on_the_class() -> nn.Module:
    _Cached.table.clear()
    return Tower(_Cached())


@fault("loss-shape", loss=lambda output: output.pow(2))
def loss_of_two_dimensions() -> nn.Module:
    return Tower(Block())


@fault("loss-shape", line=".item()", loss=lambda output: output.pow(2).mean().item())
def loss_as_a_number() -> nn.Module:
    return Tower(Block())


@fault("loss-nonfinite", line="log()", loss=lambda output: (output - output).abs().log().mean())
def loss_of_infinity() -> nn.Module:
    return Tower(Block())


@fault(
    "no-gradient",
    line="item()",
    loss=lambda output: torch.tensor(output.pow(2).mean().item(), requires_grad=True) * 1.0,
)
def rebuilt_loss() -> nn.Module:
    return Tower(Block())


class _ChangesItself(Block):
    def spoil(self, h):
        self.linear.weight.data.mul_(0.9)
        return h


@fault("base-changed", place="blocks.1", line=".mul_(0.9)")
def changes_itself() -> nn.Module:
    return Tower(_ChangesItself())


class _Shared(Block):
    scale = torch.ones(1)

    def spoil(self, h):
        h = h * self.scale.clone()
        if self.training:
            _Shared.scale = _Shared.scale * 1.1
        return h


@fault("base-changed")
def trains_a_class_attribute() -> nn.Module:
    _Shared.scale = torch.ones(1)
    return Tower(_Shared())


@block("flags-changed", "manual_seed")
class Reseeds(Block):
    def spoil(self, h):
        torch.manual_seed(3)
        return h + torch.randn(6)


@block("flags-changed", "set_default_dtype")
class ChangesDefaultDtype(Block):
    def spoil(self, h):
        torch.set_default_dtype(torch.float64)
        return h * torch.ones(6, dtype=torch.float32)


@block("thread-mode", "set_grad_enabled(False)")
class LeavesGradOff(Block):
    def spoil(self, h):
        h = h + 1
        torch.set_grad_enabled(False)
        return h


OTHERS = nn.Linear(2, 2)


@fault(
    "not-optimized",
    options={"make_optimizer": lambda _: torch.optim.SGD(OTHERS.parameters(), lr=0.1)},
)
def optimizer_on_others() -> nn.Module:
    return Tower(Block())


@fault("lr-zero", options={"learning_rate": 0.0})
def rate_of_zero() -> nn.Module:
    return Tower(Block())


@fault(
    "step-lost",
    options={"make_optimizer": lambda parameters: torch.optim.SGD(parameters, lr=1e-30)},
)
def rate_of_almost_zero() -> nn.Module:
    return Tower(Block())
