"""A task whose loss draws noise by row."""

from typing import Any

import torch
from torch import Tensor, nn

from cog_adapt import Example, Recipe, row_generators
from cog_adapt.runner.task.task import Task
from gradient_check.tests.models import seeded_module

WIDTH = 6
RECIPE = Recipe("all", max_steps=4, batch_size=8, seed=5, learning_rate=0.02)


class Net(nn.Module):
    """Predicts a row's noise."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(WIDTH, 12), nn.Tanh(), nn.Linear(12, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


class Denoising(Task):
    """Rows of numbers in, their noise out; it keeps what each step's rows drew."""

    method, lora_targets, part_tokens = "all", r"body\.\d", 2
    random_loss = True

    def __init__(self) -> None:
        self.seen: list[tuple[float, Tensor]] = []

    def load(self) -> nn.Module:
        return seeded_module(Net)

    def encode(self, inputs: Any) -> Any:
        return {"x": torch.tensor(inputs, dtype=torch.float32).view(-1, WIDTH)}

    def noise(self, x: Tensor) -> Tensor:
        draws = [torch.randn(WIDTH, generator=g, device=g.device) for g in row_generators()]
        return torch.stack(draws).to(x)

    def loss(self, module: nn.Module, batch: Any, targets: Tensor) -> Tensor:
        x = batch["x"]
        noise = self.noise(x)
        if torch.is_grad_enabled():
            self.seen += [(float(t), n) for t, n in zip(targets, noise.cpu(), strict=True)]
        return (module(x + noise) - noise).square().mean(1)

    def predict(self, module: nn.Module, batch: Any, labels: Any, options: Any) -> list[Any]:
        return module(batch["x"]).tolist()

    def probe(self) -> list[Example]:
        return examples(3)


def examples(count: int) -> list[Example]:
    return [Example([(n + i) % 5 / 5 for i in range(WIDTH)], float(n)) for n in range(count)]
