"""Faults of transformers, mixtures of experts and adapters."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gradient_check.exam.case import Case, Questions, numbers, rows

questions = Questions("faults")
TOKENS = rows(2, 5, 8)
IDS = numbers(30, 2, 5)


class Block(nn.Module):
    """Attention of one head and a feed-forward net; the parts may be replaced."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(8, 8) for _ in range(3))
        self.norm, self.wide, self.narrow = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = tokens + self.attend(tokens)
        return tokens + self.narrow(F.gelu(self.wide(self.norm(tokens))))

    def attend(self, tokens: Tensor) -> Tensor:
        scores = self.scores(self.query(tokens), self.key(tokens))
        return scores.softmax(-1) @ self.value(tokens)

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        return queries @ keys.mT / 8**0.5


@questions.fault("graph-cut")
def queries_are_detached() -> Case:
    class Net(Block):
        def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
            return super().scores(queries.detach(), keys)  # fault

    return Case(Net(), TOKENS)


@questions.fault("backward", "stale-forward")
def a_position_bias_is_computed_once() -> Case:
    class Net(Block):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.bias = nn.Embedding(9, 1), None

        def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
            if self.bias is None:
                places = torch.arange(queries.shape[1])
                self.bias = self.table(places[:, None] - places + 4)[..., 0].exp()  # fault
            return super().scores(queries, keys) + self.bias

    return Case(Net(), TOKENS)


@questions.fault("train-forward")
def rotations_are_kept_in_a_global_by_an_inference() -> Case:
    kept: dict[int, Tensor] = {}

    class Net(Block):
        def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
            length = queries.shape[1]
            if length not in kept:
                kept[length] = torch.arange(1.0, length + 1).cos()[:, None]  # fault
            return super().scores(queries * kept[length], keys)

    return Case(Net(), TOKENS)


@questions.fault("graph-cut")
def a_router_picks_but_does_not_weigh() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.router = nn.Linear(8, 3)
            self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

        def forward(self, tokens: Tensor) -> Tensor:
            chosen = F.one_hot(self.router(tokens).argmax(-1), 3)  # fault
            outputs = torch.stack([expert(tokens) for expert in self.experts], -1)
            return (outputs * chosen[:, :, None]).sum(-1)

    return Case(Net(), rows(16, 5, 8))


@questions.fault("graph-cut")
def a_temperature_is_a_float() -> Case:
    class Net(Block):
        def __init__(self) -> None:
            super().__init__()
            self.temperature = nn.Parameter(torch.tensor(1.5))

        def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
            return super().scores(queries, keys) / float(self.temperature)  # fault

    return Case(Net(), TOKENS)


@questions.fault("graph-cut")
def values_are_gathered_by_numpy() -> Case:
    class Net(Block):
        def attend(self, tokens: Tensor) -> Tensor:
            values = self.value(tokens)
            order = self.query(tokens).sum(-1).argsort(1)  # fault
            chosen = values.detach().numpy()[[[0], [1]], order.numpy()]  # fault
            return torch.from_numpy(chosen) + self.key(tokens)

    return Case(Net(), TOKENS)


@questions.fault("base-changed")
def a_logit_scale_is_clamped_in_forward() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.text, self.image = nn.Linear(8, 4), nn.Linear(8, 4)
            self.scale = nn.Parameter(torch.tensor(5.0))

        def forward(self, tokens: Tensor) -> Tensor:
            self.scale.data.clamp_(max=4.6)  # fault
            text, image = (
                F.normalize(self.text(tokens[:, 0])),
                F.normalize(self.image(tokens[:, 1])),
            )
            return self.scale.exp() * text @ image.T / 100

    return Case(Net(), TOKENS)


@questions.fault("graph-cut")
def the_forward_freezes_its_encoder() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block, self.out = Block(), nn.Linear(8, 2)

        def forward(self, tokens: Tensor) -> Tensor:
            for parameter in self.block.parameters():
                parameter.requires_grad = False  # fault
            return self.out(self.block(tokens))

    return Case(Net(), TOKENS)


@questions.fault("gradient-wrong")
def a_pre_hook_of_the_norm_detaches() -> Case:
    net = Block()

    def cast(module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(value.detach() for value in inputs)  # fault

    net.norm.register_forward_pre_hook(cast)
    return Case(net, TOKENS)


@questions.fault("gradient-wrong")
def a_backward_hook_of_a_block_doubles() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = Block(), Block()

        def forward(self, tokens: Tensor) -> Tensor:
            return self.second(self.first(tokens))

    net = Net()

    def double(module: nn.Module, inputs: object, outputs: Any) -> tuple[Tensor]:  # the fault
        return (outputs[0] * 2,)  # fault

    net.second.register_full_backward_hook(double)
    return Case(net, TOKENS)
