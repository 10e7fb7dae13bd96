"""A third set of faults and healthy models, held out until the self-test was done."""

import torch
import torch.utils.checkpoint
from torch import nn
from torch.nn import functional as F

from cog_adapt.runner.config import Precision
from tests.cog_adapt.runner.gradients.faults import Fault, rows
from tests.cog_adapt.runner.gradients.healthy import Healthy

EXAM_2: list[Fault] = []
EXAM_2_HEALTHY: list[Healthy] = []
PROBE = rows(5, 10)


def entropy(output):
    return F.cross_entropy(output, torch.tensor([0, 1, 2, 3, 0]), reduction="none")


class Net(nn.Module):
    def __init__(self, core):
        super().__init__()
        self.inp = nn.Linear(10, 12)
        self.norm = nn.LayerNorm(12)
        self.core = core
        self.out = nn.Linear(12, 4)

    def forward(self, x):
        h = F.silu(self.norm(self.inp(x)))
        return self.out(h + self.core(h))


class Core(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(12, 12)
        self.b = nn.Linear(12, 12)

    def forward(self, h):
        return self.b(self.mid(F.gelu(self.a(h))))

    def mid(self, h):
        return h


def fault(code, token=None, module="core"):
    def register(kind):
        def make():
            return Net(kind())

        make.__name__ = kind.__name__
        EXAM_2.append(Fault(make, code, module, token, loss=entropy, probe=PROBE))
        return kind

    return register


def healthy(loss=entropy, probe=PROBE, **options):
    def register(kind):
        def make():
            return Net(kind()) if isinstance(kind, type) else kind()

        make.__name__ = kind.__name__
        EXAM_2_HEALTHY.append(Healthy(make, loss=loss, probe=probe, options=options))
        return kind

    return register


@fault("graph-cut", "clone().detach()")
class ClonedAndDetached(Core):
    def mid(self, h):
        return h.clone().detach()


@fault("graph-cut", "numpy(force=True)")
class ForcedNumpy(Core):
    def mid(self, h):
        return torch.tensor(h.numpy(force=True))


@fault("graph-cut")
class HeldContext(Core):
    def mid(self, h):
        context = torch.no_grad()
        with context:
            return h * 2


@fault("graph-cut", ".item()")
class LoopOverItems(Core):
    def mid(self, h):
        out = torch.zeros_like(h)
        for i in range(h.shape[0]):
            for j in range(h.shape[1]):
                out[i, j] = h[i, j].item()
        return out


@fault("graph-cut", "detach_()")
class DetachedInPlace(Core):
    def mid(self, h):
        h = h * 1.0
        h.detach_()
        return h


@fault("graph-cut", "quantize_per_tensor")
class QuantizedActivation(Core):
    def mid(self, h):
        return torch.quantize_per_tensor(h.float(), 0.05, 0, torch.qint8).dequantize()


@fault("gradient-wrong", "detach()")
class DetachedInput(Core):
    def forward(self, h):
        return self.b(F.gelu(self.a(h.detach())))


@fault("graph-cut", "bucketize")
class Bucketized(Core):
    def mid(self, h):
        return torch.bucketize(h, torch.linspace(-2, 2, 30)).float() / 30


@fault("graph-cut", "searchsorted")
class Searched(Core):
    def mid(self, h):
        return torch.searchsorted(torch.linspace(-2, 2, 30), h.contiguous()).float() / 30


class MeanForBias(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, b):
        ctx.save_for_backward(x, w)
        return F.linear(x, w, b)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w, g.T @ x, g.mean(0)


@fault("gradient-wrong", "def backward", module=None)
class WrongBiasGradient(Core):
    def mid(self, h):
        return MeanForBias.apply(h, self.a.weight, self.a.bias)


@fault("gradient-wrong", "weight.data")
class SharedWeightData(Core):
    def mid(self, h):
        return F.linear(h, self.a.weight.data)


@fault("grad-nonfinite", "acos")
class SlopeAtTheEdge(Core):
    def mid(self, h):
        return h + torch.acos(torch.ones_like(h) + 0 * h)


@fault("graph-cut", "set_grad_enabled")
class GradEnabledFalse(Core):
    def mid(self, h):
        with torch.set_grad_enabled(mode=False):
            doubled = h * 2
        return doubled + 1


@fault("gradient-wrong", "no_grad")
class VarianceWithoutGraph(Core):
    def mid(self, h):
        mean = h.mean(-1, keepdim=True)
        with torch.no_grad():
            variance = h.var(-1, keepdim=True)
        return (h - mean) / torch.sqrt(variance + 1e-5)


@fault("gradient-wrong", "detach()")
class DetachedGate(Core):
    def mid(self, h):
        return h * torch.softmax(3 * h, -1).max(-1, keepdim=True).values.detach()


@fault("gradient-wrong", "detach()")
class FunctionalCallWithDetached(Core):
    def mid(self, h):
        tensors = {name: p.detach() for name, p in self.b.named_parameters()}
        return torch.func.functional_call(self.b, tensors, (h,))


@fault("unused")
class UnusedGate(Core):
    def __init__(self):
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(12))


@fault("base-changed", "weight.copy_")
class NormalisesItself(Core):
    def mid(self, h):
        with torch.no_grad():
            self.a.weight.copy_(self.a.weight / self.a.weight.norm(dim=1, keepdim=True))
        return h


@fault("base-changed", module=None)
class RenormalisedEmbedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(10, 12, max_norm=0.1)

    def forward(self, h):
        return self.e(torch.arange(h.shape[0])) + h


@fault("flags-changed", "manual_seed(1)")
class ReseedsForDropout(Core):
    def mid(self, h):
        torch.random.manual_seed(1)
        return F.dropout(h, 0.2, self.training)


@fault("leak", module=None)
class KeepsOnTheClass(Core):
    outputs: list[torch.Tensor] = []

    def mid(self, h):
        self.outputs.append(h)
        return h


@fault("train-forward", "NotImplementedError")
class RefusesToTrain(Core):
    def mid(self, h):
        if h.requires_grad:
            raise NotImplementedError("no training")
        return h


@fault("gradient-wrong", "register_hook")
class DropsSmallGradients(Core):
    def mid(self, h):
        y = h * 1
        if y.requires_grad:
            y.register_hook(lambda g: torch.where(g.abs() > g.abs().median(), g, g * 0))
        return y


@fault("gradient-wrong", "detach()")
class DetachedSlice(Core):
    def mid(self, h):
        y = h.clone()
        y[:, :3] = y[:, :3].detach()
        return y


@fault("gradient-wrong", ".data")
class DoubledThroughData(Core):
    def mid(self, h):
        y = h.clone()
        y.data[:, :3] *= 2
        return y * y


@fault("serve-differs", module=None)
class RoundsWhenServing(Core):
    def mid(self, h):
        return h.round(decimals=1) if torch.is_inference_mode_enabled() else h


@fault("base-changed", module=None)
class SharedDict(Core):
    shared: dict[str, float] = {}

    def mid(self, h):
        if self.training:
            self.shared["k"] = 0.5
        return h * self.shared.get("k", 1.0)


@healthy()
class StatisticsAside(Core):
    def mid(self, h):
        with torch.no_grad():
            self.largest = float(h.abs().max())
            mask = (h > -10).float()
        return h * mask


@healthy()
class CheckpointedDropout(Core):
    def mid(self, h):
        def inner(z):
            return F.dropout(z, 0.3, self.training) * 2

        return torch.utils.checkpoint.checkpoint(inner, h, use_reentrant=False)


@healthy()
class Noisy(Core):
    def mid(self, h):
        return h * torch.rand_like(h) if self.training else h * 0.5


@healthy()
class Gumbel(Core):
    def mid(self, h):
        return F.gumbel_softmax(h) if self.training else h.softmax(-1)


@healthy()
class Normalised(Core):
    def mid(self, h):
        weight = self.a.weight
        return F.linear(h, weight / weight.norm(dim=1, keepdim=True))


@healthy()
class Permuted(Core):
    def mid(self, h):
        return h[:, torch.randperm(12)] if self.training else h


@healthy()
class Sorted(Core):
    def mid(self, h):
        return h.gather(-1, h.argsort(-1))


@healthy()
class KeepsLog(Core):
    def __init__(self):
        super().__init__()
        self.log = []

    def mid(self, h):
        self.log.append(h.detach().mean())
        return h


@healthy()
class Logarithm(Core):
    def mid(self, h):
        if self.training:
            h = h + torch.randn_like(h) * 0.1
        return h.abs().add(1e-3).log()


@healthy(probe=rows(2, 1, 28, 28), loss=lambda o: F.cross_entropy(o, torch.tensor([1, 3])))
def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 10),
    )  # fmt: skip


@healthy(probe=rows(2, 3, 16, 16), loss=lambda o: o.pow(2).mean((1, 2, 3)))
def up_and_down():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.down = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.PReLU())
            self.up = nn.ConvTranspose2d(8, 3, 4, 2, 1)
            self.side = nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(8, 3, 1))

        def forward(self, x):
            h = self.down(x)
            return x + self.up(h) + self.side(h)

    return Net()


@healthy(probe=rows(4, 7, 6), loss=lambda o: o.pow(2).mean((1, 2)))
def encoder_and_decoder():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.t = nn.Transformer(6, 2, 2, 2, 12, batch_first=True)

        def forward(self, x):
            return self.t(x, x[:, :3])

    return Net()


@healthy(
    probe=rows(4, 6),
    loss=lambda m, x: (m(x) @ m(x + 0.1).T / 0.07).log_softmax(-1).diag().neg(),
)
def contrastive():
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 8))


@healthy(
    probe=rows(16, 6),
    loss=lambda o: o.pow(2).mean(1),
    precision=Precision(torch.device("cpu"), torch.bfloat16),
)
def deep_in_bf16():
    layers = [m for _ in range(6) for m in (nn.Linear(6, 6), nn.LayerNorm(6), nn.GELU())]
    return nn.Sequential(*layers, nn.Linear(6, 3))
