"""Open cases of models wrapped as libraries wrap them, part a."""

import copy
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.utils.checkpoint import checkpoint

from gradient_check.exam.case import Case, Questions, numbers, rows

questions = Questions("wrappers")


@questions.fault("grad-zero")
def low_rank_factors_that_both_begin_at_zero() -> Case:
    class LoraLinear(nn.Module):
        def __init__(self, base: nn.Linear, rank: int) -> None:
            super().__init__()
            self.base = base.requires_grad_(False)
            self.lora_a = nn.Parameter(torch.zeros(rank, base.in_features))  # fault: random values
            self.lora_b = nn.Parameter(torch.zeros(base.out_features, rank))

        def forward(self, x: Tensor) -> Tensor:
            return self.base(x) + 2 * (x @ self.lora_a.t()) @ self.lora_b.t()  # fault shows here

    model = nn.Sequential(LoraLinear(nn.Linear(6, 8), 2), nn.Tanh(), nn.Linear(8, 2))
    return Case(model, rows(5, 6))


@questions.healthy()
def low_rank_adapters_on_a_frozen_base() -> Case:
    class LoraLinear(nn.Module):
        def __init__(self, base: nn.Linear, rank: int) -> None:
            super().__init__()
            self.base, self.scaling = base.requires_grad_(False), 4 / rank
            self.lora_a = nn.ParameterDict({"default": rows(rank, base.in_features) * 0.3})
            self.lora_b = nn.ParameterDict({"default": torch.zeros(base.out_features, rank)})

        def forward(self, x: Tensor) -> Tensor:
            down = x @ self.lora_a["default"].t()
            return self.base(x) + self.scaling * down @ self.lora_b["default"].t()

    layers = [LoraLinear(nn.Linear(6, 8), 2), nn.Tanh(), LoraLinear(nn.Linear(8, 2), 2)]
    return Case(nn.Sequential(*layers), rows(5, 6, seed=1))


@questions.fault("gradient-wrong")
def decomposed_adapter_with_its_norm_undeclared() -> Case:
    class DoraLinear(nn.Module):
        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            self.weight = nn.Parameter(rows(outputs, inputs, seed=1) * 0.4)
            self.magnitude = nn.Parameter(torch.linspace(0.5, 1.5, outputs)[:, None])

        def forward(self, x: Tensor) -> Tensor:
            with torch.no_grad():  # fault: said nowhere
                norm = self.weight.norm(dim=1, keepdim=True)  # fault
            return F.linear(x, self.magnitude * self.weight / norm)

    return Case(nn.Sequential(DoraLinear(3, 8), nn.Tanh(), nn.Linear(8, 2)), rows(5, 3))


@questions.healthy()
def encoder_with_an_output_object_and_a_padding_mask() -> Case:
    @dataclass
    class ClassifierOutput:
        loss: Tensor | None = None
        logits: Tensor | None = None

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(12, 8)
            self.qkv, self.mlp, self.norm = (
                nn.Linear(8, 24, bias=False),
                nn.Linear(8, 8),
                nn.LayerNorm(8),
            )
            self.head = nn.Linear(8, 3)

        def forward(self, ids: Tensor, mask: Tensor, labels: Tensor) -> ClassifierOutput:
            x = self.embedding(ids)
            query, key, value = self.qkv(x).chunk(3, -1)
            x = x + F.scaled_dot_product_attention(query, key, value, mask[:, None].bool())
            x = x + F.gelu(self.mlp(self.norm(x)))
            kept = mask[..., None].to(x.dtype)
            logits = self.head((x * kept).sum(1) / kept.sum(1))
            return ClassifierOutput(F.cross_entropy(logits, labels), logits)

    ids = torch.arange(20).view(4, 5) % 12
    mask = (torch.arange(5) < torch.tensor([[5], [3], [4], [2]])).long()
    return Case(Encoder(), (ids, mask, numbers(3, 4)), lambda output: output.loss)


@questions.fault("gradient-wrong")
def head_tied_to_the_data_of_the_embedding() -> Case:
    class TiedLm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.body = nn.Embedding(11, 8), nn.Linear(8, 8)

        def forward(self, ids: Tensor) -> Tensor:
            hidden = torch.tanh(self.body(self.embedding(ids)))
            return hidden @ self.embedding.weight.data.t()  # fault: half of the tie has no gradient

    def loss(module: nn.Module, ids: Tensor) -> Tensor:
        logits = module(ids[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())

    return Case(TiedLm(), numbers(11, 5, 6), loss)


@questions.healthy()
def prefix_of_keys_and_values() -> Case:
    class PrefixAttention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.keys, self.values = nn.Parameter(rows(3, 8)), nn.Parameter(rows(3, 8, seed=1))
            self.qkv, self.out = nn.Linear(8, 24, bias=False), nn.Linear(8, 2)
            self.qkv.weight.requires_grad_(False)

        def forward(self, x: Tensor) -> Tensor:
            query, key, value = self.qkv(x).chunk(3, -1)
            keys = torch.cat([self.keys.expand(len(x), 3, 8), key], 1)
            values = torch.cat([self.values.expand(len(x), 3, 8), value], 1)
            return self.out(F.scaled_dot_product_attention(query, keys, values))

    return Case(PrefixAttention(), rows(4, 5, 8, seed=2))


@questions.fault("unregistered")
def trained_scales_in_a_plain_dictionary() -> Case:
    class Ia3(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.key, self.value, self.out = (nn.Linear(6, 6) for _ in range(3))
            self.scales = {n: nn.Parameter(torch.ones(6)) for n in ("key", "value")}  # fault

        def forward(self, x: Tensor) -> Tensor:
            key = self.key(x) * self.scales["key"]  # fault shows here
            value = self.value(x) * self.scales["value"]  # fault shows here
            return self.out(torch.sigmoid(key) * value)

    return Case(Ia3(), rows(5, 6))


@questions.healthy()
def lazy_layers_built_by_a_dry_run() -> Case:
    model = nn.Sequential(nn.LazyLinear(8), nn.Tanh(), nn.LazyLinear(2))
    model(torch.zeros(1, 6))
    return Case(model, rows(5, 6))


@questions.fault("graph-cut")
def parametrization_that_reads_data() -> Case:
    class Positive(nn.Module):
        def forward(self, weight: Tensor) -> Tensor:
            return F.softplus(weight.data)  # fault: no history

    layer = nn.Linear(6, 8)
    parametrize.register_parametrization(layer, "weight", Positive())
    return Case(nn.Sequential(layer, nn.Tanh(), nn.Linear(8, 2)), rows(5, 6))


@questions.healthy()
def standardized_kernel_with_group_norm() -> Case:
    class StandardConv(nn.Conv2d):
        def forward(self, x: Tensor) -> Tensor:
            flat = self.weight.flatten(1)
            unit = (flat - flat.mean(1, keepdim=True)) / (flat.var(1, keepdim=True) + 1e-5).sqrt()
            weight = unit.view_as(self.weight) / flat.shape[1] ** 0.5
            return self._conv_forward(x, weight, self.bias)

    layers = [StandardConv(2, 4, 3), nn.GroupNorm(2, 4), nn.SiLU(), StandardConv(4, 4, 3)]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
    return Case(model, rows(3, 2, 7, 7))


@questions.fault("graph-cut", "no-gradient")
def replicas_made_by_a_deep_copy_in_the_forward() -> Case:
    class Parallel(nn.Module):
        def __init__(self, module: nn.Module) -> None:
            super().__init__()
            self.module = module

        def forward(self, x: Tensor) -> Tensor:
            replicas = [copy.deepcopy(self.module) for _ in range(2)]  # fault: new leaves
            parts = [r(part) for r, part in zip(replicas, x.chunk(2), strict=True)]  # fault
            return torch.cat(parts)

    return Case(Parallel(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))), rows(6, 6))


@questions.healthy()
def functional_call_on_generated_weights() -> Case:
    class Hyper(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.target = nn.Linear(6, 3)
            self.code, self.generator = nn.Parameter(rows(4)), nn.Linear(4, 18)

        def forward(self, x: Tensor) -> Tensor:
            change = self.generator(torch.tanh(self.code)).view(3, 6)
            weights = {"weight": self.target.weight + change, "bias": self.target.bias}
            return torch.func.functional_call(self.target, weights, (x,))

    return Case(nn.Sequential(Hyper(), nn.Tanh(), nn.Linear(3, 2)), rows(6, 6, seed=1))


@questions.fault("graph-cut")
def embedding_inside_a_reentrant_checkpoint() -> Case:
    class Tower(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.block = nn.Embedding(12, 8), nn.Linear(8, 8)
            self.head = nn.Linear(8, 3)

        def body(self, ids: Tensor) -> Tensor:
            return torch.tanh(self.block(self.embedding(ids)))

        def forward(self, ids: Tensor) -> Tensor:
            hidden = checkpoint(self.body, ids, use_reentrant=True)  # fault: ids need no gradient
            return self.head(hidden.mean(1))

    return Case(Tower(), numbers(12, 4, 5), lambda o: o.logsumexp(1) - o[:, 0])
