"""Planted faults: models whose gradients go wrong, each with the code and place to be named."""

import copy
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


def squares(output: Tensor) -> Tensor:
    return (output - 0.3).pow(2).flatten(1).mean(1)


def rows(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


@dataclass(frozen=True)
class Fault:
    """A model, and what must be said about it: `code`, the module's path, a token in the line."""

    make: Callable[[], nn.Module]
    code: str
    module: str | None = None
    token: str | None = None
    loss: Callable[..., Any] = squares
    probe: Any = field(default_factory=lambda: rows(3, 6))
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return getattr(self.make, "__name__", str(self.make))


FAULTS: list[Fault] = []


def fault(code: str, module: str | None = None, token: str | None = None, **rest: Any) -> Any:
    def register(make: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
        FAULTS.append(Fault(make, code, module, token, **rest))
        return make

    return register


class Block(nn.Module):
    """A linear layer followed by something that goes wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.spoil(torch.tanh(self.linear(x)))

    def spoil(self, h: Tensor) -> Tensor:
        return h


class Tower(nn.Module):
    """A healthy layer, the block, and a healthy head."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.blocks = nn.ModuleList([Block(), block])
        self.head = nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.first(x))
        for block in self.blocks:
            h = block(h)
        return self.head(h)


def block(code: str, token: str | None = None, module: str = "blocks.1", **rest: Any) -> Any:
    """Register a `Block` subclass inside a tower."""

    def register(kind: type[nn.Module]) -> type[nn.Module]:
        def make() -> nn.Module:
            return Tower(kind())

        make.__name__ = kind.__name__
        FAULTS.append(Fault(make, code, module, token, **rest))
        return kind

    return register


@block("graph-cut", ".detach()")
class Detached(Block):
    def spoil(self, h):
        return h.detach()


@block("graph-cut", ".data")
class Data(Block):
    def spoil(self, h):
        return h.data * 2


@block("graph-cut", "torch.tensor(")
class TensorOfList(Block):
    def spoil(self, h):
        values = h.tolist()
        return torch.tensor(values)


FAULTS[-1] = Fault(FAULTS[-1].make, "graph-cut", "blocks.1", "tolist()")


@block("graph-cut", "no_grad")
class NoGradBlock(Block):
    def spoil(self, h):
        with torch.no_grad():
            h = h * 2
            h = torch.relu(h)
        return h + 1


@block("graph-cut", "no_grad")
class NoGradMethod(Block):
    @torch.no_grad()
    def spoil(self, h):
        return h * 3


@block("graph-cut", "inference_mode")
class InferenceModeBlock(Block):
    def spoil(self, h):
        with torch.inference_mode():
            h = h * 2
        return h + 0.0


@block("graph-cut", "set_grad_enabled(False)")
class GradSwitchedOff(Block):
    def spoil(self, h):
        with torch.set_grad_enabled(False):
            return h * 2


@block("graph-cut", "argmax")
class ArgMax(Block):
    def spoil(self, h):
        best = h.argmax(-1)
        return F.one_hot(best, 6).float()


@block("graph-cut", ".numpy()")
class NumpyRoundTrip(Block):
    def spoil(self, h):
        array = np.tanh(h.cpu().detach().numpy())
        return torch.from_numpy(array)


FAULTS[-1] = Fault(FAULTS[-1].make, "graph-cut", "blocks.1", "numpy()")


@block("graph-cut", ".long()")
class Long(Block):
    def spoil(self, h):
        return (h * 10).long().float()


@block("graph-cut", "> 0")
class Comparison(Block):
    def spoil(self, h):
        return (h > 0).float()


@block("graph-cut", "nn.Parameter(")
class Rewrapped(Block):
    def spoil(self, h):
        fresh = nn.Parameter(h)
        return fresh * 2


FAULTS[-1] = Fault(FAULTS[-1].make, "graph-cut", "blocks.1", "Parameter(")


@block("graph-cut", "self.w.detach()", module="blocks.1")
class DetachedWeight(Block):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(6, 6))

    def spoil(self, h):
        return F.linear(h, self.w.detach())


@block("graph-cut", "requires_grad_(False)")
class FreezesItself(Block):
    def spoil(self, h):
        self.linear.weight.requires_grad_(False)
        return F.linear(h, self.linear.weight)


@block("graph-cut", "checkpoint(")
class ReentrantCheckpoint(Block):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(6, 6)

    def forward(self, x):
        return x + checkpoint(self.inner, torch.ones(3, 6), use_reentrant=True)


@block("grad-zero", ".round()")
class Rounded(Block):
    def spoil(self, h):
        return (h * 4).round() / 4


@block("grad-zero", "sign")
class Signed(Block):
    def spoil(self, h):
        return torch.sign(h)


@block("grad-zero", "* 1e4")
class Saturated(Block):
    def spoil(self, h):
        return torch.sigmoid((h + 3) * 1e4)


FAULTS[-1] = Fault(FAULTS[-1].make, "grad-zero", "blocks.1", "torch.sigmoid")


@block("grad-nonfinite", "sqrt")
class RootOfZero(Block):
    def spoil(self, h):
        return h + (h - h).sqrt()


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    def backward(ctx, g):
        return g * 2


class Halfway(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w, x.t() @ g  # w is not transposed


class Nothing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    def backward(ctx, g):
        return None


class Raising(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    def backward(ctx, g):
        raise ValueError("no backward here")


class Zeroing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    def backward(ctx, g):
        return torch.zeros_like(g)


@block("gradient-wrong", "def backward")
class WrongBackward(Block):
    def spoil(self, h):
        return Doubled.apply(h)


FAULTS[-1] = Fault(FAULTS[-1].make, "gradient-wrong", "blocks.1", "def backward")


@block("gradient-wrong", "def backward")
class TransposedBackward(Block):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(6, 6))

    def spoil(self, h):
        return Halfway.apply(h, self.w)


@block("grad-none", "def backward")
class BackwardOfNothing(Block):
    def spoil(self, h):
        return Nothing.apply(h)


@block("backward", "raise ValueError", module=None)
class BackwardRaises(Block):
    def spoil(self, h):
        return Raising.apply(h)


@block("grad-zero", "def backward")
class ZeroBackward(Block):
    def spoil(self, h):
        return Zeroing.apply(h)


@block("gradient-wrong", "register_hook")
class TensorHook(Block):
    def spoil(self, h):
        if h.requires_grad:
            h.register_hook(lambda g: g * 0.5)
        return h * 2


@block("grad-zero", "register_hook")
class ZeroHook(Block):
    def spoil(self, h):
        h = h * 2
        if h.requires_grad:
            h.register_hook(lambda g: g * 0)
        return torch.tanh(h)


@block("gradient-wrong", "def scale_down")
class ModuleHook(Block):
    def __init__(self):
        super().__init__()

        def scale_down(module, grad_input, grad_output):
            return (grad_input[0] * 0.3,)

        self.linear.register_full_backward_hook(scale_down)


FAULTS[-1] = Fault(FAULTS[-1].make, "gradient-wrong", "blocks.1.linear", "def scale_down")


@block("gradient-wrong", "lambda g: g - g.mean()")
class ParameterHook(Block):
    def __init__(self):
        super().__init__()
        self.linear.weight.register_hook(lambda g: g - g.mean())


FAULTS[-1] = Fault(FAULTS[-1].make, "gradient-wrong", "blocks.1.linear", "lambda g: g - g.mean()")


@block("gradient-wrong", ".detach()")
class HalfDetached(Block):
    def spoil(self, h):
        return torch.cat([h[:, :2].detach(), h[:, 2:]], dim=1) + 0.5 * h.tanh()


@block("gradient-wrong", ".data")
class WrittenThroughData(Block):
    def spoil(self, h):
        h = h * 2
        h.data.mul_(h.data)
        return torch.tanh(h) + h.pow(2)


@block("backward", ".add_(1)")
class OverwrittenSaved(Block):
    def spoil(self, h):
        y = torch.sigmoid(h)
        z = y * y
        y.add_(1)
        return z


@fault("gradient-wrong", token=".detach()")
def detached_rows_of_first_layer() -> nn.Module:
    class Rows(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(6, 6)
            self.head = nn.Linear(6, 2)

        def forward(self, x):
            h = self.first(x)
            return self.head(torch.cat([h[:, :3].detach(), h[:, 3:]], 1))

    return Rows()


@fault("unused", module="spare", token=None)
def unused_layer() -> nn.Module:
    model = Tower(Block())
    model.spare = nn.Linear(3, 3)
    return model


@fault("leak-to-base", token="original(x)")
def closure_over_the_original() -> nn.Module:
    original = nn.Linear(6, 2)

    class Closed(nn.Module):
        def __init__(self):
            super().__init__()
            self.own = original
            self.call = lambda x: original(x)

        def forward(self, x):
            return self.call(x)

    return Closed()


@fault("leak-to-base", token="original(x)")
def closure_over_the_frozen_original() -> nn.Module:
    return closure_over_the_original().requires_grad_(False)


@fault("train-forward", module="blocks.1", token="missing")
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


@fault("train-forward", module="blocks.1", token='h * self.table["mask"]')
def cache_on_the_class() -> nn.Module:
    _Cached.table.clear()
    return Tower(_Cached())


class _Memo(Block):
    memo: dict[str, Tensor] = {}

    def spoil(self, h):
        if "w" not in self.memo:
            with torch.no_grad():
                self.memo["w"] = self.linear.weight + 0.0
        return h + F.linear(h, self.memo["w"].clone())


@fault("inference-tensor")
def born_in_inference_mode() -> nn.Module:
    with torch.inference_mode():
        return Tower(Block())


@fault("inference-tensor")
def zombie() -> nn.Module:
    with torch.inference_mode():
        model = Tower(Block()).double()
    return model.float()


@fault("inference-tensor")
def inference_buffer() -> nn.Module:
    model = Tower(Block())
    with torch.inference_mode():
        model.register_buffer("mask", torch.ones(6))
    return model


@fault("meta")
def on_meta() -> nn.Module:
    return Tower(Block()).to("meta")


@fault("lazy")
def lazy_layer() -> nn.Module:
    return nn.Sequential(nn.LazyLinear(6), nn.Linear(6, 2))


@fault("nonfinite-weights")
def nan_weight() -> nn.Module:
    model = Tower(Block())
    model.first.weight.data[0, 0] = float("nan")
    return model


@fault("nothing-trainable", options={"trainable": "no_such_name"})
def nothing_selected() -> nn.Module:
    return Tower(Block())


@fault("scripted", module="1 (")
def scripted() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 6), torch.jit.trace(nn.Linear(6, 6), torch.ones(1, 6)))


@fault("replica", module="lock")
def uncopyable() -> nn.Module:
    import threading

    model = Tower(Block())
    model.lock = threading.Lock()
    return model


@fault("loss-shape", loss=lambda output: output.pow(2))
def loss_of_two_dimensions() -> nn.Module:
    return Tower(Block())


@fault("loss-shape", token=".item()", loss=lambda output: output.pow(2).mean().item())
def loss_as_a_number() -> nn.Module:
    return Tower(Block())


@fault("loss-nonfinite", token="log()", loss=lambda output: (output - output).abs().log().mean())
def loss_of_infinity() -> nn.Module:
    return Tower(Block())


@fault(
    "no-gradient",
    token="item()",
    loss=lambda output: torch.tensor(output.pow(2).mean().item(), requires_grad=True) * 1.0,
)
def rebuilt_loss() -> nn.Module:
    return Tower(Block())


class _ChangesItself(Block):
    def spoil(self, h):
        self.linear.weight.data.mul_(0.9)
        return h


@fault("base-changed", module="blocks.1", token=".mul_(0.9)")
def changes_itself() -> nn.Module:
    return Tower(_ChangesItself())


class _Shared(Block):
    scale = torch.ones(1)

    def spoil(self, h):
        h = h * self.scale.clone()
        if self.training:
            _Shared.scale = _Shared.scale * 1.1
        return h


@fault("race")
def trains_a_class_attribute() -> nn.Module:
    _Shared.scale = torch.ones(1)
    return Tower(_Shared())


FAULTS[-1] = Fault(FAULTS[-1].make, "base-changed")


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


@fault("not-optimized")
def optimizer_on_others() -> nn.Module:
    return Tower(Block())


_others = nn.Linear(2, 2)
FAULTS[-1] = Fault(
    FAULTS[-1].make,
    "not-optimized",
    options={"make_optimizer": lambda _: torch.optim.SGD(_others.parameters(), lr=0.1)},
)


@fault("lr-zero", options={"learning_rate": 0.0})
def rate_of_zero() -> nn.Module:
    return Tower(Block())


@fault(
    "step-lost",
    options={"make_optimizer": lambda ps: torch.optim.SGD(ps, lr=1e-30)},
)
def rate_of_almost_zero() -> nn.Module:
    return Tower(Block())


@fault("serve-differs")
def inference_takes_a_short_cut() -> nn.Module:
    class ShortCut(Block):
        def spoil(self, h):
            return h if torch.is_grad_enabled() else h * 1.05

    return Tower(ShortCut())


@fault("gradient-wrong", module="blocks.1")
def value_cache_of_training() -> nn.Module:
    class Remembers(Block):
        kept = None

        def spoil(self, h):
            if self.training and self.kept is None:
                self.kept = h.detach()
            return h + (self.kept if self.training else h)

    return Tower(Remembers())


FAULTS.pop()


@functools.cache
def quantized_model() -> nn.Module:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))
        quantized = torch.ao.quantization.quantize_dynamic(model, {nn.Linear})
    return nn.Sequential(nn.Linear(6, 6), quantized, nn.Linear(6, 2))


@fault("quantized", module="1.0")
def quantized() -> nn.Module:
    return copy.deepcopy(quantized_model())
