"""Faults in a tower's block that leave the graph whole, and its gradients wrong."""

import torch
from torch import nn

from gradient_check.exam.case import ModuleQuestions
from gradient_check.exam.known.hosts import PLAIN, Block, Tower

questions = ModuleQuestions("tower, wrong values", Tower, "blocks.1", **PLAIN)
block = questions.faulty_part
fault = questions.faulty


@block("grad-zero", ".round()")
class Rounded(Block):
    def spoil(self, h):
        return (h * 4).round() / 4


@block("grad-zero", "sign")
class Signed(Block):
    def spoil(self, h):
        return torch.sign(h)


@block("grad-zero", "torch.sigmoid")
class Saturated(Block):
    def spoil(self, h):
        return torch.sigmoid((h + 3) * 1e4)


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


@block("backward", "raise ValueError", place=None)
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


@block("gradient-wrong", "grad_input[0] * 0.3", place="blocks.1.linear")
class ModuleHook(Block):
    def __init__(self):
        super().__init__()

        def scale_down(module, grad_input, grad_output):
            return (grad_input[0] * 0.3,)

        self.linear.register_full_backward_hook(scale_down)


@block("gradient-wrong", "lambda g: g - g.mean()", place="blocks.1.linear")
class ParameterHook(Block):
    def __init__(self):
        super().__init__()
        self.linear.weight.register_hook(lambda g: g - g.mean())


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


@fault("gradient-wrong", line=".detach()")
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
