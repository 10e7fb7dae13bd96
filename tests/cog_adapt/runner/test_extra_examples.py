"""Examples that the base makes before the first step (`Task.extra_examples`) are trained on."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from cog_adapt import Example, InputError, Recipe, RunnerSettings
from cog_adapt.runner.adaptation.run import adapt
from cog_adapt.runner.errors import AdaptationError
from cog_adapt.runner.inference.label_tensors import finished
from cog_adapt.runner.model.loaded_model import LoadedModel
from gradient_check.tests.present import present
from tests.cog_adapt.devices import DEVICE
from tests.cog_adapt.runner.test_prepare import Encoding

ROWS = [Example([0.1 * n, 1.0, -0.2 * n, 0.5], 0.3 * n) for n in range(8)]
RECIPE = Recipe(max_steps=6, batch_size=4, learning_rate=0.01, extra_examples=3, extra_weight=0.5)
STEPS = 4


class Remembering(Encoding):
    """Makes examples whose targets are the base's own answers, in four steps each."""

    most = 10

    def extra_examples(
        self, module: Any, examples: Sequence[Example], count: int
    ) -> Iterator[Example | None]:
        for number in range(min(count, self.most)):
            assert not torch.is_grad_enabled()
            assert not module.training
            yield from [None] * (STEPS - 1)
            row = [0.7 * number, -1.0, float(len(examples)), 0.1]
            batch = {name: each.to(DEVICE) for name, each in self.encode([row]).items()}
            yield Example(row, self.predict(module, batch)[0])


def loaded(task: Any) -> LoadedModel:
    return LoadedModel(task, RunnerSettings(device=DEVICE, precision="fp32"))


def made_by(task: Any, model: LoadedModel) -> list[Example]:
    base: nn.Module = model.base.template.eval()
    with torch.no_grad():
        return [each for each in task.extra_examples(base, ROWS, 3) if each is not None]


@pytest.mark.parametrize("hold_out", [0.0, 0.25])
def test_steps_see_them_with_their_weight_and_scores_do_not(hold_out: float) -> None:
    model = loaded(Remembering())
    recipe = replace(RECIPE, hold_out=hold_out)
    found = present(finished(model.adapting(ROWS, recipe)))
    plain = replace(recipe, extra_examples=0, extra_weight=1.0)
    start = model.start(ROWS, plain)
    both = [*ROWS, *made_by(model.task, model)]
    weights = [1.0] * len(ROWS) + [0.5] * 3
    data = replace(start.data, examples=both, weights=weights, extra=3)
    tensors, report = finished(adapt(replace(start, data=data)))
    for name, tensor in tensors.items():
        assert torch.equal(present(found.adapter).tensors[name], tensor.cpu())
    without = present(finished(model.adapting(ROWS, plain)))
    assert [s.loss for s in report.scores] == [s.loss for s in found.report.scores]
    assert any(
        not torch.equal(tensor, present(without.adapter).tensors[name])
        for name, tensor in present(found.adapter).tensors.items()
    )
    assert found.report.examples == without.report.examples  # those that were sent
    if hold_out:
        assert report.scores[0].loss == without.report.scores[0].loss


def test_a_tick_makes_a_part_of_one() -> None:
    ticks = [
        len([*loaded(Remembering()).adapting(ROWS, replace(RECIPE, extra_examples=n))])
        for n in (1, 3)
    ]
    assert ticks[1] - ticks[0] >= 2 * STEPS


def test_a_task_that_makes_too_few_is_told_so() -> None:
    task = Remembering()
    task.most = 2
    with pytest.raises(AdaptationError, match=r"Remembering.extra_examples made 2 of 3 examples"):
        finished(loaded(task).adapting(ROWS, RECIPE))


def test_a_task_without_them_refuses_the_recipe() -> None:
    with pytest.raises(
        InputError, match="Encoding makes no extra examples. Leave `extra_examples`"
    ):
        finished(loaded(Encoding()).adapting(ROWS, RECIPE))


@pytest.mark.parametrize(
    ("field", "value"), [("extra_examples", 1001), ("extra_examples", -1), ("extra_weight", -0.1)]
)
def test_a_recipe_out_of_bounds_is_refused(field: str, value: float) -> None:
    with pytest.raises(InputError, match=field):
        Recipe(**{field: value})  # type: ignore[arg-type]
