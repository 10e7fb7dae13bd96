"""Faults that a module has before it runs: its weights, its kind, its selection."""

import copy
import functools
import threading
import warnings
from typing import Any

import torch
from torch import nn

from gradient_check.exam.case import ModuleQuestions
from gradient_check.exam.known.hosts import PLAIN, Block, Tower

questions = ModuleQuestions("weights and kinds", **PLAIN)
fault = questions.faulty


@fault("unused", place="spare", line=None)
def unused_layer() -> nn.Module:
    model = Tower(Block())
    model.spare = nn.Linear(3, 3)
    return model


@fault("leak-to-base", line="original(x)")
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


@fault("leak-to-base", line="original(x)")
def closure_over_the_frozen_original() -> nn.Module:
    return closure_over_the_original().requires_grad_(False)


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


@fault("scripted", place="1 (")
def scripted() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 6), torch.jit.trace(nn.Linear(6, 6), torch.ones(1, 6)))


@fault("replica", place="lock")
def uncopyable() -> nn.Module:
    model: Any = Tower(Block())
    model.lock = threading.Lock()
    return model


@functools.cache
def quantized_model() -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))
        quantized = torch.ao.quantization.quantize_dynamic(model, {nn.Linear})
    return nn.Sequential(nn.Linear(6, 6), quantized, nn.Linear(6, 2))


@fault("quantized", place="1.0")
def quantized() -> nn.Module:
    return copy.deepcopy(quantized_model())
