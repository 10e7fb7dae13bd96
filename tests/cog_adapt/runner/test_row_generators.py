"""Noise by row follows from a step's seed and the example, however the step's batch is cut."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cog_adapt
from cog_adapt import Recipe, RunnerError, RunnerSettings, row_generators
from cog_adapt.runner.config import recipe_fields
from cog_adapt.runner.inference.label_tensors import finished
from cog_adapt.runner.known.adaptation_key import key_of
from cog_adapt.runner.model.loaded_model import LoadedModel
from cog_adapt.runner.selftest.run import run_self_test
from cog_adapt.runner.task.task import Task
from gradient_check.tests.present import present
from tests.cog_adapt.devices import DEVICE
from tests.cog_adapt.runner.noisy import RECIPE, Denoising, examples


class Whole(Denoising):
    """The same, whose steps are not cut."""

    part_tokens = 10**6


class FromOneStream(Denoising):
    """The same; its noise comes from the default stream."""

    def noise(self, x: Tensor) -> Tensor:
        return torch.randn(x.shape, device=x.device)


class TwoDraws(Denoising):
    """The same, which asks twice."""

    def noise(self, x: Tensor) -> Tensor:
        return super().noise(x) - super().noise(x)


def loaded(task: Task) -> LoadedModel:
    return LoadedModel(task, RunnerSettings(device=DEVICE, precision="fp32"))


def drawn(task: Denoising, recipe: Recipe = RECIPE) -> dict[tuple[int, float, int], Tensor]:
    """Adapt; return what the rows drew, by step, example, and how often it came before in it.

    At an epoch's end some are twice in a step.
    """
    finished(loaded(task).adapting(examples(12), recipe))
    found: dict[tuple[int, float, int], Tensor] = {}
    for number, (which, noise) in enumerate(task.seen[-recipe.max_steps * recipe.batch_size :]):
        step = number // recipe.batch_size
        again = sum((step, which, n) in found for n in range(recipe.batch_size))
        found[step, which, again] = noise
    return found


def test_a_row_draws_the_same_in_parts_as_in_a_whole_step() -> None:
    parts, whole = drawn(Denoising()), drawn(Whole())
    assert parts.keys() == whole.keys()
    assert any(again for _, _, again in whole)
    assert all(torch.equal(parts[key], whole[key]) for key in whole)


@pytest.mark.parametrize("kind", [Denoising, Whole])
def test_repeats_give_each_example_rows_with_noise_of_their_own(kind: type[Denoising]) -> None:
    task, recipe = kind(), replace(RECIPE, batch_size=3, repeats=4, max_steps=1)
    (step,) = finished(loaded(task).adapting(examples(12), recipe)).report.steps
    rows = task.seen[-3 * 4 :]
    assert sorted(Counter(which for which, _ in rows).values()) == [4, 4, 4]
    assert len({float(noise[0]) for _, noise in rows}) == 12
    module, losses = loaded(task).base.module, []
    for which, noise in rows:
        (example,) = (each for each in examples(12) if each.target == which)
        x, noise = torch.tensor([example.input]).to(DEVICE), noise.to(DEVICE)
        losses.append(float((module(x + noise) - noise).square().mean()))
    assert step.loss == pytest.approx(sum(losses) / len(losses), rel=1e-5)


def test_repeats_make_another_adaptation_and_none_leaves_files_as_they_were() -> None:
    assert "repeats" not in recipe_fields(RECIPE)
    ids = {
        present(finished(loaded(Denoising()).adapting(examples(12), recipe)).adapter).id
        for recipe in (RECIPE, replace(RECIPE, repeats=1), replace(RECIPE, repeats=2))
    }
    keys = {key_of(examples(2), replace(RECIPE, repeats=count), None, "origin") for count in (1, 2)}
    assert len(ids) == len(keys) == 2


def test_rows_steps_and_seeds_draw_different_noise() -> None:
    noise = drawn(Denoising())
    other = drawn(Denoising(), Recipe("all", max_steps=4, batch_size=8, seed=6, learning_rate=0.02))
    values = {float(each[0]) for each in (*noise.values(), *other.values())}
    assert len(values) == len(noise) + len(other)


def test_an_adaptation_again_gives_the_same_bits() -> None:
    made = [finished(loaded(Denoising()).adapting(examples(12), RECIPE)) for _ in range(2)]
    one, other = (present(each.adapter).tensors for each in made)
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def test_a_second_call_in_a_loss_goes_on() -> None:
    assert all(bool(noise.any()) for noise in drawn(TwoDraws()).values())


def test_generators_are_on_the_device_of_the_batch() -> None:
    kinds: set[tuple[str, str]] = set()

    class Looking(Denoising):
        def noise(self, x: Tensor) -> Tensor:
            kinds.update((g.device.type, x.device.type) for g in row_generators())
            return super().noise(x)

    drawn(Looking())
    assert kinds == {(torch.device(DEVICE).type,) * 2}


def test_held_out_losses_are_compared_under_one_noise() -> None:
    class Still(Denoising):
        """A loss that no step moves: only other noise could."""

        def loss(self, module: nn.Module, batch: Any, targets: Tensor) -> Tensor:
            losses = super().loss(module, batch, targets)
            return 0 * losses + self.noise(batch["x"]).square().mean(1)

    class StillFromOneStream(FromOneStream, Still):
        pass

    recipe = Recipe("all", max_steps=4, batch_size=8, seed=5, learning_rate=0.02, hold_out=0.5)
    for kind in (Still, StillFromOneStream):
        scores = finished(loaded(kind()).adapting(examples(12), recipe)).report.scores
        assert len(scores) > 2
        assert len({score.loss for score in scores}) == 1
        assert all(score.loss == -score.score for score in scores)


@pytest.mark.parametrize("kind", [Denoising, Whole])
def test_each_held_out_example_is_scored_on_eight_draws_the_same_each_time(kind: Any) -> None:
    scored: list[tuple[float, float]] = []

    class Listening(kind):
        def loss(self, module: nn.Module, batch: Any, targets: Tensor) -> Tensor:
            if not torch.is_grad_enabled():
                noise = self.noise(batch["x"])[:, 0].tolist()
                scored.extend(zip(targets.tolist(), noise, strict=True))
            return super().loss(module, batch, targets)

    recipe = replace(RECIPE, hold_out=0.5)
    scores = finished(loaded(Listening()).adapting(examples(12), recipe)).report.scores
    calls = 2 * len(scores)  # of a loss and of a score
    again = [which for (which, _), count in Counter(scored).items() if count == calls]
    assert calls > 4
    assert [*Counter(again).values()] == [8] * 6


@pytest.mark.parametrize(
    "ask", [cog_adapt.row_generators, lambda: loaded(Asking()).base.module(None)]
)
def test_outside_a_loss_the_call_is_refused_in_words(ask: Any) -> None:
    with pytest.raises(RunnerError, match=r"outside a task's loss.*Call it in `Task.loss`"):
        ask()


class Asking(Denoising):
    def load(self) -> nn.Module:
        class Asks(nn.Module):
            def forward(self, _: Any) -> Any:
                return row_generators()

        return Asks()


def test_a_task_with_noise_by_row_passes_its_self_test_and_nothing_false_is_said() -> None:
    report = run_self_test(loaded(Denoising()))
    assert report.passed
    assert set(report.codes) <= {"unverified"}
    statuses = {check.status for each in report.reports for check in each.checks}
    assert statuses == {"passed"}


def test_undeclared_noise_by_row_is_told() -> None:
    class Undeclared(Denoising):
        random_loss = False

    assert "random-loss" in run_self_test(loaded(Undeclared())).codes


def test_noise_of_one_stream_depends_on_the_rows_and_the_advice_names_generators() -> None:
    findings = [f for each in run_self_test(loaded(FromOneStream())).reports for f in each.findings]
    (finding,) = (f for f in findings if f.level != "NOTE")
    assert (finding.code, finding.level) == ("rows-depend", "WARN")
    assert "row_generators()" in finding.message
