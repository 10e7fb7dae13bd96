"""A learned embedding at the input is a head: rows of several adapters share a forward."""

from typing import Any

import pytest
import torch
from torch import nn

from cog_adapt import Recipe
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.inference.answers import Query
from cog_adapt.runner.inference.label_tensors import finished
from cog_adapt.runner.inference.together import RowGroup
from gradient_check.tests.present import present
from tests.cog_adapt.devices import DEVICE
from tests.cog_adapt.mixed import Encoder, Mixed, adapter, loaded

WIDTH, ANSWERS = 8, 12  # more numbers than a style has


class Styled(Encoder):
    """Adds a style's row to every letter, and answers with numbers of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.style = nn.Embedding(1, WIDTH)
        self.head = nn.Linear(WIDTH, ANSWERS)

    def mean(self, batch: Any) -> Any:
        mask = batch["attention_mask"].unsqueeze(-1).float()
        style = self.style(torch.zeros_like(batch["ids"][:, 0]))
        hidden = (self.embedding(batch["ids"]) + style.unsqueeze(1)) * mask
        hidden = self.norm(hidden + self.attend(hidden, mask.squeeze(-1).bool())) * mask
        return hidden.sum(1) / mask.sum(1)


class Style(Mixed):
    """Texts in, numbers out; what is learned is a style and pairs."""

    head = r"style\.weight"

    def module(self) -> nn.Module:
        return Styled()

    def labels(self, examples: Any) -> tuple[str, ...]:
        return tuple(dict.fromkeys(str(each.target) for each in examples))

    def start(self, module: Any, labels: Any, examples: Any) -> dict[str, torch.Tensor]:
        return {"style.weight": module.style.weight.expand(len(labels), -1)} if labels else {}

    def loss(self, module: Any, batch: Any, targets: Any) -> Any:
        return (module(batch) - 1).square().mean(1)

    def predict(self, module: Any, batch: Any, labels: Any, options: None) -> list[Any]:
        return module(batch).tolist()


def styled(model: Any, seed: int) -> Any:
    random = torch.randn(1, WIDTH, generator=torch.Generator().manual_seed(seed))
    made = adapter(model, seed, labels=1)
    pairs = {name: tensor for name, tensor in made.tensors.items() if "lora" in name}
    return type(made)({**pairs, "style.weight": random}, ("TOK",), "lora", made.base)


def test_rows_of_several_styles_and_pairs_share_a_forward() -> None:
    model = loaded(Style(), precision="fp32")  # what is answered alone has no autocast
    modules, shared = model.predictions.modules, model.predictions.shared
    served = [finished(modules.serving(Query(["a"], styled(model, n)))) for n in range(3)]
    texts = (["abc", "de"], ["f"], ["abc"])
    batch = model.task.encode([text for some in texts for text in some])
    pieces = [RowGroup(some, one, None) for some, one in zip(texts, served, strict=True)]
    answers = shared.answer(present(shared.structure(served[0])), pieces, batch)
    for some, one, (first, *_) in zip(texts, served, answers, strict=True):
        batch = {name: tensor.to(DEVICE) for name, tensor in model.task.encode(some).items()}
        (alone, *_) = model.task.predict(one.module, batch, ("TOK",), None)
        assert first == pytest.approx(alone, abs=1e-5)
    assert answers[0][0] != answers[2][0]


def test_style_and_pairs_are_learned_together() -> None:
    model = loaded(Style())
    rows = [Example(text, "TOK") for text in ("abc", "de", "f", "gh")]
    done = present(finished(model.adapting(rows, Recipe(max_steps=30, learning_rate=0.02))))
    losses = [step.loss for step in done.report.steps]
    assert losses[-1] < 0.5 * losses[0]
    tensors = present(done.adapter).tensors
    assert "style.weight" in tensors
    assert any(name.endswith("lora_b") for name in tensors)
