"""Faults that users make in plain PyTorch, each with what must be said."""

import torch
from torch import nn
from torch.nn import functional as F

from gradient_check.exam.case import ModuleQuestions
from gradient_check.exam.known.hosts import PLAIN, squares
from gradient_check.phases.precision import Precision

questions = ModuleQuestions("plain PyTorch", **PLAIN)
fault = questions.faulty
HALF = Precision(torch.device("cpu"), torch.float16)
PADDED = torch.tensor([[3, 4, 5, 0, 0], [6, 7, 0, 0, 0]])


class Shrinking(torch.autograd.Function):
    """The identity with a gradient that is a tenth too small."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return g * 0.9


class Shrunk(nn.Module):
    def forward(self, x):
        return Shrinking.apply(x)


@fault("gradient-wrong", "2 (Shrunk)", "def backward", probe=PADDED)
def behind_a_padded_embedding():
    return nn.Sequential(
        nn.Embedding(10, 8, padding_idx=0), nn.Linear(8, 8), Shrunk(), nn.Linear(8, 3)
    )


class Encoder(nn.Module):
    """An encoder that somebody once wrote for inference alone."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)

    @torch.inference_mode()
    def forward(self, x):
        return torch.tanh(self.linear(x))


@fault("train-forward", "0 (Encoder)", "inference_mode")
def encoder_in_inference_mode():
    return nn.Sequential(Encoder(), nn.Linear(6, 2))


OTHER = nn.Linear(6, 2)


def by_a_global(module, x):
    return squares(OTHER(x))


@fault("unused", None, "squares(OTHER(x))", loss=by_a_global)
def loss_by_a_global():
    return nn.Linear(6, 2)


def tower():
    return nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 2))


def zeroed(output):
    return 0.0 * squares(output)


def satisfied_hinge(output):
    return F.relu(output.sum(1) * 0.01 - 50)


def against_itself(module, x):
    return F.mse_loss(module(x), module(x).detach())


def entropy_against_itself(module, x):
    logits = module(x)
    return F.kl_div(logits.log_softmax(1), logits.detach().softmax(1), reduction="batchmean")


def tiny(output):
    return squares(output) * 1e-12


@fault("nothing-trainable", None, "0.0 * squares", loss=zeroed)
def loss_times_zero():
    return tower()


@fault("nothing-trainable", None, "F.relu(output.sum(1)", loss=satisfied_hinge)
def hinge_that_is_satisfied():
    return tower()


@fault("nothing-trainable", None, "F.mse_loss(module(x)", loss=against_itself)
def distilled_against_itself():
    return tower()


@fault("flat", loss=entropy_against_itself)
def compared_with_itself():
    return tower()


@fault("nothing-trainable", loss=tiny, options={"precision": HALF})
def loss_below_float16():
    return tower()


@fault("unregistered")
class PlainTensor(nn.Module):
    """Its learnt scale is a tensor that requires a gradient, but no parameter."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 2)
        self.log_sigma = torch.zeros(1, requires_grad=True)

    def forward(self, x):
        return self.linear(x) * self.log_sigma.exp()


@fault("unregistered")
class PromptsInAList(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 2)
        self.prompts = [torch.zeros(6, requires_grad=True)]

    def forward(self, x):
        return self.linear(x + self.prompts[0])


WEIGHT = torch.zeros(1, requires_grad=True)


def uncertain(output):
    return squares(output) * (-WEIGHT).exp() + WEIGHT


@fault("unregistered", loss=uncertain, level="WARN")
def weight_outside_the_module():
    return tower()


class Halved(torch.autograd.Function):
    """The identity with half the gradient."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return g * 0.5


class Halving(nn.Module):
    def forward(self, x):
        return Halved.apply(x)


class StraightThrough(nn.Module):
    def forward(self, h):
        return h + (h.round() - h).detach()


@fault("gradient-wrong", "1 (Halving)", "def backward")
def wrong_behind_a_straight_through_estimator():
    return nn.Sequential(
        nn.Linear(6, 6), Halving(), nn.Linear(6, 6), StraightThrough(), nn.Linear(6, 2)
    )


class Quantiser(nn.Module):
    """A codebook as in VQ-VAE, with its two losses."""

    def __init__(self):
        super().__init__()
        self.codes = nn.Embedding(5, 6)

    def forward(self, h):
        codes = self.codes(torch.cdist(h, self.codes.weight).argmin(1))
        nearing = (codes - h.detach()).square().mean(1) + (codes.detach() - h).square().mean(1)
        return h + (codes - h).detach(), nearing


class AutoEncoder(nn.Module):
    def __init__(self, part=None):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(6, 6), nn.Linear(6, 6)
        self.quantiser = Quantiser()
        self.part = part or nn.Identity()

    def forward(self, x):
        h, nearing = self.quantiser(self.encoder(x))
        return squares(self.part(self.decoder(h))) + nearing


def itself(output):
    return output


@fault("gradient-wrong", "part (Halving)", "def backward", loss=itself)
def wrong_behind_a_codebook():
    return AutoEncoder(Halving())


@fault("optimizer", "0 (Embedding)", probe=PADDED)
def sparse_embedding_with_a_dense_optimizer():
    return nn.Sequential(nn.Embedding(10, 8, sparse=True), nn.Linear(8, 3))


def halve(parameter):
    parameter.grad.mul_(0.5)


@fault("gradient-wrong", "0 (Linear)", "parameter.grad.mul_(0.5)")
def hook_after_accumulation():
    module = tower()
    module[0].weight.register_post_accumulate_grad_hook(halve)
    return module


def with_its_own_backward(module, x):
    loss = squares(module(x)).mean()
    loss.backward(retain_graph=True)
    return loss


@fault("gradient-wrong", None, "loss.backward(retain_graph=True)", loss=with_its_own_backward)
def backward_in_the_loss():
    return tower()


@fault("graph-cut", "(root) (OldVariable)", "Variable(h.data)")
class OldVariable(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(6, 6), nn.Linear(6, 2)

    def forward(self, x):
        h = self.inner(x)
        h = torch.autograd.Variable(h.data)
        return self.outer(h)
