"""Faults of losses that take gradients themselves, or weigh by what has none."""

import torch
from torch import nn
from torch.func import functional_call

from gradient_check.exam.case import ModuleQuestions
from gradient_check.exam.known.hosts import rows, squares

questions = ModuleQuestions("second order", probe=rows(8, 6), loss=squares)
model = questions.faulty


def net():
    return nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 2))


def shifted(losses):
    shift = losses.detach().mean()  # a harmless stop, behind the one at fault
    return (losses - shift) + shift


def adapted(module, x):
    weights = dict(module.named_parameters())
    inner = squares(functional_call(module, weights, x[:4])).mean()
    slopes = torch.autograd.grad(inner, list(weights.values()))
    fast = {n: w - 0.4 * g for (n, w), g in zip(weights.items(), slopes, strict=True)}
    return shifted(squares(functional_call(module, fast, x[4:])))


def penalised(module, x):
    x = x.clone().requires_grad_()
    scores = module(x)
    slope = torch.autograd.grad(scores.sum(), x, retain_graph=True)[0]
    return shifted(squares(scores) + (slope.norm(dim=-1) - 1).square())


def penalised_and_cut(module, x):
    x = x.clone().requires_grad_()
    scores = module(x)
    (slope,) = torch.autograd.grad(scores.sum(), x, create_graph=True)
    penalty = (slope.norm(dim=-1) - 1).square().detach()
    return squares(scores) + penalty * scores.mean(-1)


@torch.no_grad()
def weights_of(scores):
    return scores.square().sum(-1).sigmoid().detach()


def weighted(module, x):
    scores = module(x)
    return shifted(weights_of(scores) * squares(scores))


@model("gradient-wrong", None, "slopes = torch.autograd.grad(inner", loss=adapted)
def inner_step():
    return net()


@model("gradient-wrong", None, "slope = torch.autograd.grad(scores", loss=penalised)
def penalty():
    return net()


@model("gradient-wrong", None, ".square().detach()", loss=penalised_and_cut)
def cut_penalty():
    return net()


@model("gradient-wrong", None, "@torch.no_grad()", loss=weighted)
def weights_under_a_decorator():
    return net()
