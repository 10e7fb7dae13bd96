"""Healthy models near the thresholds: steep, flat, large, small, deep, kinked or random."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gradient_check.exam.case import Case, Questions, numbers, off_target, rows

questions = Questions("healthy, near thresholds")
VALUES = rows(6, 8)


def net(*middle: nn.Module, width: int = 8) -> nn.Sequential:
    """Return two layers with these between."""
    return nn.Sequential(nn.Linear(8, width), *(middle or (nn.Tanh(),)), nn.Linear(width, 3))


def a_part(function: object) -> nn.Module:
    """Return a module that applies a function."""

    class Part(nn.Module):
        def forward(self, values: Tensor) -> Tensor:
            return function(values)  # type: ignore[operator, no-any-return]

    return Part()


@questions.healthy()
def a_sine_of_a_hundred() -> Case:
    return Case(net(a_part(lambda values: torch.sin(100 * values))), VALUES)


@questions.healthy()
def a_loss_of_a_millionth() -> Case:
    return Case(net(), VALUES, lambda output: 1e-6 * off_target(output))


@questions.healthy("exploding")
def a_loss_of_a_million() -> Case:
    return Case(net(), VALUES, lambda output: 1e6 * off_target(output))


@questions.healthy("exploding")
def a_loss_with_a_large_constant() -> Case:
    return Case(net(), VALUES, lambda output: 1e4 + off_target(output))


@questions.healthy("vanishing", "exploding")
def a_net_of_forty_layers() -> Case:
    layers = [m for _ in range(40) for m in (nn.Linear(8, 8), nn.Tanh())]
    for layer in layers[::2]:
        nn.init.orthogonal_(layer.weight)
    return Case(net(*layers), VALUES)


@questions.healthy()
def dropout_of_nine_tenths() -> Case:
    return Case(net(nn.ReLU(), nn.Dropout(0.9), width=64), VALUES)


@questions.healthy()
def medians_and_quantiles() -> Case:
    def middle(values: Tensor) -> Tensor:
        return values - values.median(1, keepdim=True).values + values.quantile(0.7, 1, True)

    return Case(net(a_part(middle)), VALUES)


@questions.healthy()
def sorted_values() -> Case:
    return Case(net(a_part(lambda values: values.sort(1).values)), VALUES)


@questions.healthy()
def hard_kinks_in_a_wide_net() -> Case:
    return Case(net(nn.Hardswish(), nn.Linear(256, 256), nn.ReLU6(), width=256), rows(40, 8))


@questions.healthy()
def logits_of_a_hundred() -> Case:
    def loss(logits: Tensor) -> Tensor:
        return F.cross_entropy(60 * logits, numbers(3, 6), reduction="none")

    return Case(net(), VALUES, loss)


@questions.healthy()
def a_model_near_its_minimum() -> Case:
    module = net()
    with torch.no_grad():
        targets = module(VALUES) + 1e-3 * rows(6, 3)
    return Case(module, VALUES, lambda output: (output - targets).square().mean(1))


@questions.healthy()
def one_example() -> Case:
    return Case(net(), rows(1, 8))


@questions.healthy()
def masked_scores_of_minus_infinity() -> Case:
    mask = torch.ones(8, 8).tril().bool()

    def middle(values: Tensor) -> Tensor:
        scores = values[:, :, None] * values[:, None, :]
        return scores.masked_fill(~mask, -torch.inf).softmax(-1) @ values[..., None]

    return Case(net(a_part(lambda values: middle(values)[..., 0])), VALUES)


@questions.healthy()
def a_root_that_is_guarded_twice() -> Case:
    def middle(values: Tensor) -> Tensor:
        safe = torch.where(values > 0, values, 1.0)
        return torch.where(values > 0, safe.sqrt(), 0.0)

    return Case(net(a_part(middle)), VALUES)


@questions.healthy("coarse-dtype")
def weights_of_bfloat16() -> Case:
    return Case(net().bfloat16(), VALUES.bfloat16(), lambda output: off_target(output.float()))


@questions.healthy()
def weights_of_float64_with_a_float32_loss() -> Case:
    return Case(net().double(), VALUES.double(), lambda output: off_target(output.float()))


@questions.healthy()
def autocast_to_bfloat16() -> Case:
    return Case(net(nn.LayerNorm(8), nn.GELU()), VALUES, options={"precision": "bf16"})


@questions.healthy()
def a_single_scalar() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gain = nn.Parameter(torch.tensor(0.3))

        def forward(self, values: Tensor) -> Tensor:
            return values * self.gain

    return Case(Net(), VALUES)


@questions.healthy()
def a_parameter_that_is_declared_unused() -> Case:
    module = net()
    module.register_parameter("extra", nn.Parameter(torch.ones(3)))
    return Case(module, VALUES, options={"unused": ["extra"]})


@questions.healthy()
def steep_thresholds_that_are_learned() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.limits, self.out = nn.Parameter(rows(8) / 2), nn.Linear(8, 2)

        def forward(self, values: Tensor) -> Tensor:
            return self.out(torch.sigmoid(20 * (values - self.limits)))

    return Case(Net(), VALUES)


@questions.healthy()
def distances_in_a_hyperbolic_space() -> Case:
    def loss(points: Tensor) -> Tensor:
        apart = (points[:, None] - points).square().sum(-1)
        curved = 1 + 2 * apart / (1 + points.square().sum(-1))
        return torch.acosh(curved.clamp(min=1 + 1e-6)).mean(1)

    return Case(net(), VALUES, loss)


@questions.healthy()
def words_that_are_padding() -> Case:
    module = nn.Sequential(nn.Embedding(9, 8, padding_idx=0), nn.LayerNorm(8), nn.Linear(8, 2))
    return Case(module, torch.tensor([[1, 2, 0, 0], [3, 4, 5, 0]]))


@questions.healthy()
def a_probe_of_a_mapping_with_masks() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.out = nn.Embedding(9, 8), nn.Linear(8, 2)

        def forward(self, ids: Tensor, mask: Tensor | None = None, scale: float = 1.0) -> Tensor:
            weights = mask[..., None].float()
            return scale * self.out((self.words(ids) * weights).sum(1) / weights.sum(1))

    mask = torch.tensor([[1, 1, 0], [1, 1, 1]])
    return Case(Net(), {"ids": numbers(9, 2, 3), "mask": mask, "scale": 2.0})


@questions.healthy("frozen")
def a_module_that_freezes_everything() -> Case:
    return Case(net().requires_grad_(False), VALUES)


@questions.healthy("random-loss")
def noise_on_the_weights_while_training() -> Case:
    class Noisy(nn.Linear):
        def forward(self, values: Tensor) -> Tensor:
            return F.linear(values, self.weight + 0.1 * torch.randn_like(self.weight), self.bias)

    return Case(nn.Sequential(Noisy(8, 8), nn.Tanh(), Noisy(8, 3)), VALUES)
