"""Healthy models of many kinds, in many precisions, with many forms of probe and loss."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gradient_check.exam.case import ModuleQuestions
from gradient_check.exam.known.hosts import PLAIN, Block, Tower, rows, squares
from gradient_check.phases.lora import lora_tensors
from gradient_check.phases.precision import Precision
from gradient_check.phases.replicas import freeze, make_template, training_replica

CPU = torch.device("cpu")
questions = ModuleQuestions("many kinds", **PLAIN)
healthy = questions.sound


@healthy()
def plain() -> nn.Module:
    return Tower(Block())


@healthy(options={"trainable": r"^head\."})
def frozen_base() -> nn.Module:
    return Tower(Block())


@healthy(options={"precision": Precision(CPU, torch.bfloat16)})
def bf16_autocast() -> nn.Module:
    return Tower(Block())


@healthy(options={"precision": Precision(CPU, torch.float16)})
def fp16_autocast() -> nn.Module:
    return Tower(Block())


class Casting(Tower):
    """A region round the forward, made beforehand as accelerate's is: its cast cache is on."""

    @torch.autocast("cpu", torch.bfloat16)
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).float()


@healthy(options={"precision": Precision(CPU, torch.bfloat16)})
def bf16_region_of_its_own() -> nn.Module:
    return Casting(Block())


@healthy(
    "coarse-dtype", loss=lambda output: output.float().pow(2).mean(1), probe=rows(3, 6).bfloat16()
)
def bf16_weights() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.LayerNorm(6), nn.Linear(6, 2)).bfloat16()


@healthy(probe=rows(3, 6).double())
def float64() -> nn.Module:
    return Tower(Block()).double()


@healthy(options={"trainable": "lora"})
def fresh_lora() -> nn.Module:
    base: Any = Tower(Block())
    freeze(base)
    generator = torch.Generator().manual_seed(0)
    tensors = {
        f"{name}.{leaf}": tensor
        for name in ("first", "blocks.0.linear", "blocks.1.linear")
        for leaf, tensor in lora_tensors(base.get_submodule(name), 2, generator).items()
    }
    return training_replica(make_template(base), tensors)


@healthy(probe=rows(4, 3, 8, 8), loss=lambda output: F.cross_entropy(output, torch.arange(4) % 2))
def convolutions_with_batch_norm() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Dropout(0.2), nn.Linear(72, 2),
    )  # fmt: skip


@healthy(probe=torch.tensor([[1, 2, 3], [4, 5, 1]]), loss=lambda output: output.pow(2).mean((1, 2)))
def tied_weights() -> nn.Module:
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(9, 6)
            self.body = nn.Linear(6, 6)
            self.head = nn.Linear(6, 9, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, ids):
            return self.head(torch.tanh(self.body(self.embedding(ids))))

    return Tied()


@healthy(probe=rows(3, 5, 6), loss=lambda output: output[0][:, -1].pow(2).mean(1))
def recurrent() -> nn.Module:
    return nn.GRU(6, 8, num_layers=2, batch_first=True)


@healthy(probe=torch.tensor([[1, 2, 0, 0], [3, 4, 5, 0]]))
def padded_embedding() -> nn.Module:
    class Pooled(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(1000, 6, padding_idx=0)
            self.head = nn.Linear(6, 2)

        def forward(self, ids):
            return self.head(self.embedding(ids).mean(1))

    return Pooled()


@healthy(probe={"x": rows(3, 6), "scale": 2.0}, loss=lambda out: squares(out["y"]))
def dict_in_and_out() -> nn.Module:
    class Named(Block):
        def forward(self, x, scale=1.0):
            return {"y": self.linear(x) * scale, "n": 3}

    return Named()


@healthy(probe=(rows(3, 6), rows(3, 6)), loss=lambda out: squares(out[0]) + out[1])
def tuple_in_and_out() -> nn.Module:
    class Pair(Block):
        def forward(self, x, y):  # type: ignore[override]
            h = self.linear(x)
            return h * y, h.square().mean(1)

    return Pair()


@healthy(loss=lambda module, x: squares(module(x)))
def loss_of_module_and_probe() -> nn.Module:
    return Tower(Block())


@healthy(options={"unused": ("spare.*",)})
def declared_unused() -> nn.Module:
    model = Tower(Block())
    model.spare = nn.Linear(3, 3)
    return model


@healthy("dead")
def dead_unit() -> nn.Module:
    model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 2))
    nn.init.constant_(model.get_parameter("0.bias"), -100.0)
    return model


@healthy("serve", loss=lambda module, x: _with_penalty(module, x))
def gradient_penalty() -> nn.Module:
    return Tower(Block())


def _with_penalty(module: nn.Module, x: Tensor) -> Tensor:
    x = x.clone().requires_grad_()
    output = module(x)
    (slope,) = torch.autograd.grad(output.sum(), x, create_graph=True)
    return squares(output) + slope.square().sum(1)
