"""A second set of faults and healthy models, written after the diagnosis: other idioms."""

import copy
import math
import random

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from tests.cog_adapt.runner.gradients.faults import Fault, rows
from tests.cog_adapt.runner.gradients.healthy import Healthy

FAULTS = []
HEALTHY = []


def fault(code, module=None, token=None, **r):
    def reg(m):
        FAULTS.append(Fault(m, code, module, token, **r))
        return m

    return reg


def ok(**r):
    def reg(m):
        HEALTHY.append(Healthy(m, **r))
        return m

    return reg


class Conv(nn.Module):
    def __init__(s, mid):
        super().__init__()
        s.stem = nn.Conv2d(3, 8, 3, padding=1)
        s.mid = mid
        s.tail = nn.Conv2d(8, 4, 3)
        s.fc = nn.Linear(4, 3)

    def forward(s, x):
        return s.fc(s.tail(s.mid(F.gelu(s.stem(x)))).mean((2, 3)))


img = rows(2, 3, 8, 8)


def conv(code, token=None, module="mid", **r):
    def reg(k):
        def f():
            return Conv(k())

        f.__name__ = k.__name__
        FAULTS.append(Fault(f, code, module, token, probe=img, **r))
        return k

    return reg


@conv("graph-cut", "torch.where")
class WhereMask(nn.Module):
    def forward(s, x):
        return torch.where(x.detach() > 0, torch.ones_like(x), torch.zeros_like(x))


FAULTS.pop()


@conv("graph-cut", "> x.mean()")
class BinaryMask(nn.Module):
    def forward(s, x):
        return torch.where(x > x.mean(), 1.0, 0.0)


@conv("graph-cut", "x.cpu().detach().numpy()")
class Np(nn.Module):
    def forward(s, x):
        y = x.cpu().detach().numpy()
        z = np.maximum(y, 0.1 * y)
        return torch.from_numpy(z).to(x.device)


@conv("graph-cut", "x.tolist()")
class AsT(nn.Module):
    def forward(s, x):
        return torch.as_tensor(x.tolist())


@conv("graph-cut", None)
class NewT(nn.Module):
    def forward(s, x):
        vals = [float(v) for v in x.flatten()]
        return x.new_tensor(vals).view_as(x)


@conv("train-forward")
class DeepC(nn.Module):
    def forward(s, x):
        return copy.deepcopy(x) * 2


@conv("graph-cut", "copy.copy")
class Long(nn.Module):
    def forward(s, x):
        return (x * 255).to(torch.uint8).float() / 255


FAULTS[-1] = Fault(FAULTS[-1].make, "graph-cut", "mid", "torch.uint8", probe=img)


@conv("grad-zero", ".round()")
class BadSTE(nn.Module):
    def forward(s, x):
        return (x * 8).round() / 8 + x - x.clone()


FAULTS[-1] = Fault(FAULTS[-1].make, "grad-zero", "mid", None, probe=img)


@conv("graph-cut", ".detach()")
class BadSTE2(nn.Module):
    def forward(s, x):
        return (x + (x.round() - x)).detach()


@conv("grad-zero", "floor")
class Floor(nn.Module):
    def forward(s, x):
        return torch.floor(x * 16) / 16


@conv("gradient-wrong", ".detach()")
class ScaleCut(nn.Module):
    def forward(s, x):
        return x / x.std().detach()


@conv("gradient-wrong", ".item()")
class ItemScale(nn.Module):
    def forward(s, x):
        return x * x.abs().mean().item()


@conv("gradient-wrong", "no_grad")
class NormNoGrad(nn.Module):
    def forward(s, x):
        with torch.no_grad():
            n = x.pow(2).mean(1, keepdim=True).sqrt()
        return x / (n + 1e-3)


@conv("gradient-wrong", "no_grad")
class DecoratedGate(nn.Module):
    def __init__(s):
        super().__init__()
        s.g = nn.Conv2d(8, 8, 1)

    @torch.no_grad()
    def gate(s, x):
        return torch.sigmoid(s.g(x))

    def forward(s, x):
        return x * s.gate(x) + 0.1 * s.g(x)


@conv("graph-cut", "no_grad")
class DecoratedOnly(nn.Module):
    def __init__(s):
        super().__init__()
        s.g = nn.Conv2d(8, 8, 1)

    @torch.no_grad()
    def gate(s, x):
        return torch.sigmoid(s.g(x))

    def forward(s, x):
        return x * s.gate(x)


@conv("graph-cut", "inference_mode")
class IM(nn.Module):
    def __init__(s):
        super().__init__()
        s.g = nn.Conv2d(8, 8, 1)

    def forward(s, x):
        with torch.inference_mode():
            y = s.g(x)
        return x + y


@conv("graph-cut", ".data")
class WData(nn.Module):
    def __init__(s):
        super().__init__()
        s.w = nn.Parameter(torch.randn(8, 8, 1, 1) * 0.3)

    def forward(s, x):
        return F.conv2d(x, s.w.data)


@conv("unused")
class WCopy(nn.Module):
    def __init__(s):
        super().__init__()
        s.w = nn.Parameter(torch.randn(8, 8, 1, 1) * 0.3)
        s.wc = s.w.data.clone()

    def forward(s, x):
        return F.conv2d(x, s.wc)


class T2(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, s):
        ctx.s = s
        return x * s

    @staticmethod
    def backward(ctx, g):
        return g.flip(-1) * ctx.s, None


@conv("gradient-wrong", "def backward")
class Flipped(nn.Module):
    def forward(s, x):
        return T2.apply(x, 2.0)


class Sgn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return F.linear(x, w)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w, None


class LinFn(nn.Module):
    def __init__(s):
        super().__init__()
        s.w = nn.Parameter(torch.randn(8, 8) * 0.3)

    def forward(s, x):
        return Sgn.apply(x.movedim(1, -1), s.w).movedim(-1, 1)


def wrong_none():
    return Conv(LinFn())


FAULTS.append(Fault(wrong_none, "grad-none", "mid", "def backward", probe=img))


class NoBias(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.tanh()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (1 - x**2)


@conv("gradient-wrong", "def backward")
class TanhWrong(nn.Module):
    def forward(s, x):
        return NoBias.apply(x)


@conv("gradient-wrong", "register_hook")
class Hk(nn.Module):
    def forward(s, x):
        y = x * 1.5
        if y.requires_grad:
            y.register_hook(lambda g: g.clamp(-1e-4, 1e-4))
        return y


@conv("gradient-wrong", "def pre")
class PreHook(nn.Module):
    def __init__(s):
        super().__init__()
        s.g = nn.Conv2d(8, 8, 1)

        def pre(m, go):
            return (go[0] * 2,)

        s.g.register_full_backward_pre_hook(pre)

    def forward(s, x):
        return s.g(x)


@conv("gradient-wrong", "lambda")
class PHook(nn.Module):
    def __init__(s):
        super().__init__()
        s.g = nn.Conv2d(8, 8, 1)
        s.g.weight.register_hook(lambda g: g * 0.1)

    def forward(s, x):
        return s.g(x)


@conv("grad-zero", "lambda")
class PHook0(nn.Module):
    def __init__(s):
        super().__init__()
        s.g = nn.Conv2d(8, 8, 1)
        s.g.weight.register_hook(lambda g: torch.zeros_like(g))

    def forward(s, x):
        return s.g(x)


@conv("backward", None)
class InPl(nn.Module):
    def forward(s, x):
        y = x.exp()
        z = y * y
        y += 1
        return z + y


FAULTS[-1] = Fault(FAULTS[-1].make, "backward", "mid", "y += 1", probe=img)


@conv("graph-cut", "requires_grad_")
class Frz(nn.Module):
    def __init__(s):
        super().__init__()
        s.g = nn.Conv2d(8, 8, 1)

    def forward(s, x):
        for p in s.g.parameters():
            p.requires_grad_(False)
        return s.g(x)


@conv("graph-cut", None)
class FrzAfter(nn.Module):
    def __init__(s):
        super().__init__()
        s.g = nn.Conv2d(8, 8, 1)

    def forward(s, x):
        y = s.g(x)
        s.g.weight.requires_grad = False
        return y


@conv("base-changed", None)
class Ema(nn.Module):
    def __init__(s):
        super().__init__()
        s.register_buffer("ema", torch.zeros(8))

    def forward(s, x):
        s.ema.mul_(0.9).add_(0.1 * x.detach().mean((0, 2, 3)))
        return x - s.ema.view(1, -1, 1, 1)


@conv("random-inference", None, module=None)
class AlwaysDrop(nn.Module):
    def forward(s, x):
        return F.dropout(x, 0.3)


@conv("nondeterministic", None, module=None)
class Rnd(nn.Module):
    n = 0

    def forward(s, x):
        Rnd.n += 1
        return x * (1 + 0.1 * math.sin(Rnd.n))


@conv("dead", None)
class Times0(nn.Module):
    def forward(s, x):
        return x * 0 + 1


@conv("grad-nonfinite", "sqrt")
class Norm0(nn.Module):
    def forward(s, x):
        return x * (x * 0).pow(2).sum().sqrt() + x


@conv("grad-nonfinite", None)
class WhereNan(nn.Module):
    def forward(s, x):
        return torch.where(x > 0, x, torch.zeros_like(x)) + torch.where(
            x > 1e9, torch.log(x - x), torch.zeros_like(x)
        )


@conv("loss-nonfinite", "log")
class Lg(nn.Module):
    def forward(s, x):
        return torch.log(x)


@conv("leak", None, module=None)
class Hist(nn.Module):
    def __init__(s):
        super().__init__()
        s.hist = []

    def forward(s, x):
        s.hist.append(x)
        return x * 1.0


GL = []


@conv("leak", None, module=None)
class GHist(nn.Module):
    def forward(s, x):
        GL.append(x.mean())
        return x * 1.0


@fault("gradient-wrong", token="detach", loss=lambda o: (o / o.detach().norm()).pow(3).sum(1))
def loss_detach():
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3))


@fault("graph-cut", token="argmax", loss=lambda o: (o.argmax(-1) != 1).float())
def acc_loss():
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3))


@fault(
    "graph-cut", token="numpy", loss=lambda m, x: torch.tensor((m(x).detach().numpy() ** 2).mean())
)
def np_loss():
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3))


@fault("loss-shape", loss=lambda m, x: m(x))
def shape3():
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3))


@fault("loss-shape", loss=lambda m, x: None)
def none_loss():
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3))


@fault("train-forward", token="@")
def shape_error():
    class X(nn.Module):
        def __init__(s):
            super().__init__()
            s.w = nn.Parameter(torch.randn(5, 5))

        def forward(s, x):
            return x @ s.w if s.training else x

    return X()


@fault(
    "not-optimized", options={"make_optimizer": lambda ps: torch.optim.SGD(list(ps)[:2], lr=0.1)}
)
def part_opt():
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3))


@fault("ascent", options={"make_optimizer": lambda ps: torch.optim.SGD(ps, lr=0.1, maximize=True)})
def maxi():
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3))


@torch.no_grad()
async def ent(x):
    return x


@fault("async-decorated", options={"entry": ent})
def entry():
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3))


@fault("gradient-wrong", "1", None)
def functional_call_checkpoint():
    from torch.func import functional_call
    from torch.utils.checkpoint import checkpoint

    class FC(nn.Module):
        def __init__(s):
            super().__init__()
            s.inner = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))
            s.scale = nn.Parameter(torch.ones(1))

            class Ck(nn.Module):
                def __init__(q, i):
                    super().__init__()
                    q.i = i

                def forward(q, x):
                    return checkpoint(q.i, x, use_reentrant=False)

            s.ck = Ck(s.inner)

        def forward(s, x):
            ps = {n: p * s.scale * 1.5 for n, p in s.ck.named_parameters()}
            return functional_call(s.ck, ps, (x,))

    return nn.Sequential(nn.Linear(6, 6), FC(), nn.Linear(6, 3))


class Tr(nn.Module):
    def __init__(s):
        super().__init__()
        s.e = nn.Embedding(30, 16)
        s.enc = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True), 3
        )
        s.o = nn.Linear(16, 30)

    def forward(s, ids):
        m = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        return s.o(s.enc(s.e(ids), mask=m, is_causal=True))


ids = torch.randint(0, 30, (3, 7), generator=torch.Generator().manual_seed(0))


def lm(m, x):
    logits = m(x)[:, :-1].transpose(1, 2)
    return F.cross_entropy(logits, x[:, 1:], reduction="none").mean(1)


@fault("gradient-wrong", "enc.layers.1", "detach", probe=ids, loss=lm)
def tr_detach():
    m = Tr()
    layer = m.enc.layers[1]

    class L(type(layer)):
        def _ff_block(s, x):
            return super()._ff_block(x.detach())

    layer.__class__ = L
    return m


@ok(probe=ids, loss=lm)
def causal_lm():
    return Tr()


@ok(
    probe=(
        rows(3, 5, 16),
        torch.tensor([[0, 0, 0, 0, 1], [0, 0, 0, 1, 1], [0, 0, 0, 0, 0]]).bool(),
    ),
    loss=lambda m, b: (
        (m(b[0], src_key_padding_mask=b[1]) * (~b[1]).unsqueeze(-1)).pow(3).mean((1, 2))
    ),
)
def padded_te():
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2)


@ok(probe=rows(4, 6))
def ste():
    class S(nn.Module):
        def __init__(s):
            super().__init__()
            s.l = nn.Linear(6, 6)

        def forward(s, x):
            h = s.l(x)
            return h + ((h * 4).round() / 4 - h).detach()

    return nn.Sequential(nn.Linear(6, 6), S(), nn.Linear(6, 2))


@ok(probe=rows(4, 3, 8, 8))
def groupnorm():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.GroupNorm(2, 8),
        nn.SiLU(),
        nn.Conv2d(8, 8, 3),
        nn.InstanceNorm2d(8, affine=True),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 3),
    )


@ok(probe=rows(4, 5, 6), loss=lambda o: o[0].pow(2).mean((1, 2)))
def lstm():
    return nn.LSTM(6, 8, batch_first=True, bidirectional=True, dropout=0.2, num_layers=2)


@ok(probe=rows(4, 5, 8), loss=lambda m, x: m(x, x, x)[0].pow(2).mean((1, 2)))
def mha():
    return nn.MultiheadAttention(8, 2, batch_first=True)


@ok(loss=nn.Flatten())
def odd():
    return nn.Sequential(nn.Linear(6, 1), nn.Flatten(0))


HEALTHY[-1] = Healthy(odd, loss=torch.mean)


@ok(loss=lambda o: -F.log_softmax(o, -1)[:, 0])
def bn1d():
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


@ok(loss=lambda o: o.sum(1) * 1e-4)
def smallloss():
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


@ok(loss=lambda o: o.mean(1) - o.mean())
def cancelloss():
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


HEALTHY.pop()


@ok(loss=lambda o: o[:, 0] - o[:, 1])
def signedloss():
    return nn.Sequential(
        nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 3)
    )


@ok()
def relu_wide():
    return nn.Sequential(
        nn.Linear(6, 500), nn.ReLU(), nn.Linear(500, 500), nn.ReLU(), nn.Linear(500, 3)
    )


@ok(loss=lambda o: F.relu(1 - o[:, 0] * 10))
def hinge():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))


@ok()
def rezero():
    class R(nn.Module):
        def __init__(s):
            super().__init__()
            s.a = nn.Parameter(torch.zeros(1))
            s.l = nn.Linear(6, 6)

        def forward(s, x):
            return x + s.a * torch.tanh(s.l(x))

    return nn.Sequential(R(), R(), nn.Linear(6, 2))


@ok(probe=rows(3, 6))
def pyrand():
    class R(nn.Module):
        def __init__(s):
            super().__init__()
            s.l = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))

        def forward(s, x):
            for layer in s.l:
                if s.training and random.random() < 0.3:
                    continue
                x = x + torch.tanh(layer(x))
            return x

    return R()


HEALTHY.pop()


@ok(probe=rows(2, 6))
def topk_moe():
    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.r = nn.Linear(6, 4)
            s.e = nn.ModuleList(nn.Linear(6, 6) for _ in range(4))

        def forward(s, x):
            w, i = s.r(x).softmax(-1).topk(2)
            y = torch.stack([e(x) for e in s.e], 1)
            return (y.gather(1, i.unsqueeze(-1).expand(-1, -1, 6)) * w.unsqueeze(-1)).sum(1)

    return nn.Sequential(nn.Linear(6, 6), M())


HEALTHY[-1] = Healthy(topk_moe, probe=rows(8, 6))


@ok(probe=rows(3, 6).to(torch.complex64))
def complexish():
    class C(nn.Module):
        def __init__(s):
            super().__init__()
            s.a = nn.Parameter(torch.randn(6, 4, dtype=torch.complex64))
            s.b = nn.Linear(4, 2)

        def forward(s, x):
            return s.b((x @ s.a).abs())

    return C()


@ok(probe=rows(3, 6))
def swa_scalar():
    class C(nn.Module):
        def __init__(s):
            super().__init__()
            s.l = nn.Linear(6, 4)
            s.t = nn.Parameter(torch.tensor(2.6592))

        def forward(s, x):
            return F.normalize(s.l(x), dim=-1) * s.t.exp()

    return C()


HEALTHY[-1] = Healthy(
    swa_scalar, loss=lambda o: F.cross_entropy(o @ o.T, torch.tensor([1, 2, 0]), reduction="none")
)


@ok(probe=rows(3, 6))
def attention_with_masked_fill():
    class A(nn.Module):
        def __init__(s):
            super().__init__()
            s.q = nn.Linear(6, 6)
            s.k = nn.Linear(6, 6)
            s.v = nn.Linear(6, 6)

        def forward(s, x):
            a = s.q(x) @ s.k(x).T
            a = a.masked_fill(torch.triu(torch.ones(3, 3), 1).bool(), float("-inf"))
            return a.softmax(-1) @ s.v(x)

    return A()


@ok(probe=rows(4, 6))
def inplace_relu():
    return nn.Sequential(
        nn.Linear(6, 16),
        nn.ReLU(inplace=True),
        nn.Linear(16, 16),
        nn.ReLU6(inplace=True),
        nn.Linear(16, 2),
    )


@ok(probe=rows(4, 6))
def maskedlinear():
    class M(nn.Linear):
        def __init__(s, i, o):
            super().__init__(i, o)
            s.register_buffer("mask", torch.tril(torch.ones(o, i)))

        def forward(s, x):
            return F.linear(x, s.weight * s.mask, s.bias)

    return nn.Sequential(M(6, 6), nn.ELU(), M(6, 6))


@ok(probe=torch.tensor([[1, 2, 3], [3, 2, 1]]))
def embbag():
    return nn.Sequential(nn.EmbeddingBag(50, 8, mode="mean"), nn.Linear(8, 2))


EXAM, EXAM_HEALTHY = FAULTS, HEALTHY
