"""Steps from kept outputs have the gradients of whole ones; what does not fit runs whole."""

import dataclasses
from typing import Any

import pytest
import torch
from torch import nn

from cog_adapt.runner.adaptation import run as adaptation
from cog_adapt.runner.adaptation.encoded import EncodedExamples
from cog_adapt.runner.adaptation.run import adapt
from cog_adapt.runner.adaptation.start import Resumption, adamw, weighted_loss
from cog_adapt.runner.adaptation.trunk import (
    TrunkKept,
    frozen_blocks,
    keep_trunk,
    relief_of,
    trunk_positions,
)
from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.model.loaded_model import LoadedModel
from gradient_check.phases.gradient_step import GradientStep
from gradient_check.phases.replicas import modules_in_training, training_replica
from gradient_check.tests.models import LABELS, seeded_module
from gradient_check.tests.present import present
from tests.cog_adapt.devices import DEVICE
from tests.cog_adapt.models import SHAPES, Labelled, examples
from tests.cog_adapt.runner.ticks import drained
from tests.cog_adapt.texts import TextEncoder, Texts

RECIPE = Recipe("lora", max_steps=6, batch_size=6, learning_rate=0.02, blocks=1, seed=3)
KEPT = "2 frozen blocks ran once for each example"


def texts(count=15):
    return [
        Example("abcdefgh"[: 1 + n % 7] + "xyz"[n % 3] * (n % 2), LABELS[n % 3])
        for n in range(count)
    ]


def loaded(task, **settings):
    return LoadedModel(task, RunnerSettings(device=DEVICE, **settings))


def adapted(model, recipe=RECIPE, rows=None):
    """The tensors and the report of an adaptation."""
    return drained(adapt(model.start(rows or texts(), recipe)))[1]


@pytest.fixture
def whole(monkeypatch):
    """Makes adaptations run whole, as if the task named no blocks."""

    def without(*_, **_named):
        yield from ()
        return TrunkKept(None, "")

    return lambda: monkeypatch.setattr(adaptation, "keep_trunk", without)


def close(one, other, limit=1e-5):
    assert one.keys() == other.keys()
    for name in one:
        assert torch.allclose(one[name], other[name], rtol=limit, atol=limit), name


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("method", ["lora", "norms", "bias", "all", "head"])
def test_an_adaptation_from_kept_outputs_is_the_whole_one(whole, method, side):
    """Batches of other shapes round otherwise in float32: 1e-5 of a value of 1."""
    model = loaded(Texts(side))
    recipe = dataclasses.replace(RECIPE, method=method, hold_out=0.3)
    tensors, report = adapted(model, recipe)
    whole()
    plain, plain_report = adapted(model, recipe)
    assert report.trunk.endswith("frozen blocks ran once for each example")
    assert plain_report.trunk == ""
    close(tensors, plain)
    for one, other in zip(report.steps, plain_report.steps, strict=True):
        assert one.loss == pytest.approx(other.loss, rel=1e-5)
        assert one.gradient_norm == pytest.approx(other.gradient_norm, rel=1e-4)
    for one, other in zip(report.scores, plain_report.scores, strict=True):
        assert (one.loss, one.score) == pytest.approx((other.loss, other.score), rel=1e-5)


class Rows(Labelled):
    """Rows of numbers through four layers and dropout: no padding, so that every bit is equal."""

    blocks = r"layers\.\d"
    lora_targets = r"layers\..*"

    def module(self) -> nn.Module:
        return Net()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Dropout(0.2)) for _ in range(4)
        )
        self.head = nn.Linear(8, len(LABELS))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_gradients_are_equal_bit_for_bit_where_a_batch_has_the_same_shape(whole, blocks):
    """One batch of all examples: the trunk ran on it as a step would."""
    model = loaded(Rows())
    rows = examples("images", 6)
    recipe = dataclasses.replace(RECIPE, blocks=blocks, batch_size=6, max_steps=5)
    tensors, report = adapted(model, recipe, rows)
    whole()
    plain, plain_report = adapted(model, recipe, rows)
    assert report.trunk == f"{4 - blocks} frozen blocks ran once for each example"
    assert all(torch.equal(tensors[name], plain[name]) for name in plain)
    assert [s.loss for s in report.steps] == [s.loss for s in plain_report.steps]


class Stage(nn.Sequential):
    """A convolution with BatchNorm that halves the picture, as an image network's stages do."""

    def __init__(self, channels: int, more: int) -> None:
        conv = nn.Conv2d(channels, more, 3, stride=2, padding=1)
        super().__init__(conv, nn.BatchNorm2d(more), nn.ReLU())


class StagedNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 2, 3, padding=1)
        self.stages = nn.Sequential(Stage(2, 4), Stage(4, 6), Stage(6, 8))
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(8, len(LABELS))

    def forward(self, x):
        hidden = self.stages(self.stem(x.view(-1, 1, 2, 4).repeat_interleave(4, 2)))
        return self.head(self.drop(hidden.mean((2, 3))))


class Pictures(Labelled):
    """Rows of numbers as small pictures."""

    blocks = r"stem|stages\.\d"

    def module(self) -> nn.Module:
        return StagedNet()


@pytest.mark.parametrize(("method", "frozen"), [("head", 4), ("all", 3), ("match:stages.1.*", 2)])
def test_stages_of_pictures_run_once_too(whole, method, frozen):
    model = loaded(Pictures())
    recipe = dataclasses.replace(RECIPE, method=method, blocks=int(method == "all"))
    rows = examples("images", 9)
    tensors, report = adapted(model, recipe, rows)
    assert report.trunk == f"{frozen} frozen blocks ran once for each example"
    whole()
    close(tensors, adapted(model, recipe, rows)[0])


def test_a_frozen_block_computes_each_example_once_besides_the_trial():
    rows = []
    model = loaded(Texts())
    for number, block in enumerate(model.base.template.blocks):
        kind: Any = type(block)

        class Counting(kind):
            place = number

            def forward(self, hidden, mask):
                rows.append((self.place, len(hidden)))
                return super().forward(hidden, mask)

        block.__class__ = Counting
    adapted(model, dataclasses.replace(RECIPE, max_steps=20))
    computed = [sum(count for place, count in rows if place == number) for number in range(3)]
    trial = 2 if model.base.precision.compute is torch.float32 else 8
    assert computed[:2] == [15 + trial] * 2
    assert computed[2] == 15 + 2 * trial + 20 * 6


def test_an_example_is_encoded_once_and_never_in_a_step():
    task = Texts()
    model = loaded(task)
    start = model.start(texts(), RECIPE)
    task.encoded.clear()
    drained(adapt(start))
    assert sum(task.encoded) == 15 + 2  # and the two that show how rows are padded


def test_the_same_seed_gives_the_same_bits():
    model = loaded(Texts())
    one, other = (adapted(model, dataclasses.replace(RECIPE, hold_out=0.3))[0] for _ in range(2))
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("stopped", [1, 4])
def test_a_resumed_run_is_the_one_that_never_stopped_bit_for_bit(stopped):
    model = loaded(Texts())
    states: list[Any] = []
    start = model.start(texts(), dataclasses.replace(RECIPE, hold_out=0.3))
    first = dataclasses.replace(start, resumption=Resumption(keep=states.append, every=stopped))
    tensors, _ = drained(adapt(first))[1]
    again, report = drained(
        adapt(dataclasses.replace(start, resumption=Resumption(state=states[0])))
    )[1]
    assert len(report.steps) == RECIPE.max_steps
    assert all(torch.equal(tensors[name], again[name]) for name in tensors)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_sixteen_bits_are_kept_as_they_are(precision, whole):
    model = loaded(Texts(), precision=precision)
    tensors, report = adapted(model)
    assert report.trunk == KEPT
    whole()
    close(tensors, adapted(model)[0], 0.05)


def test_checkpointing_and_a_kept_trunk_go_together(whole):
    model = loaded(Texts())
    recipe = dataclasses.replace(RECIPE, checkpointing=True)
    tensors, report = adapted(model, recipe)
    assert report.trunk == KEPT
    close(tensors, adapted(model)[0])


def test_the_trunk_runs_in_ticks_before_the_first_step():
    ticks = drained(adapt(loaded(Texts()).start(texts(), RECIPE)))[0]
    first = next(number for number, tick in enumerate(ticks) if tick is not None)
    # 2 full batches encoded (a GPU also compares lengths), the trial, 3 through the trunk
    assert ticks[:first] == [None] * (6 if DEVICE == "cpu" else 7)
    assert None not in ticks[first:]


class Faulty(Texts):
    """A model that `spoil` changes in one point."""

    def __init__(self, spoil) -> None:
        super().__init__()
        self.spoil = spoil

    def module(self):
        net = TextEncoder()
        self.spoil(net)
        return net


def shared(net):
    net.order = [0, 1, 1, 2]


def reversed_order(net):
    net.order = [2, 0, 1]


def skipping(net):
    net.passed = False


def random(net):
    net.blocks[0].drop = AlwaysDrops()


def skipped(net):
    net.order = [0, 2]


def batch_norm(net):
    net.blocks[0].norm = BatchStatistics()


class AlwaysDrops(nn.Module):
    def forward(self, x):
        return nn.functional.dropout(x, 0.5, training=True)


class BatchStatistics(nn.Module):
    def forward(self, x):
        return (x - x.mean(0)) / (x.std(0, unbiased=False) + 1)


FAULTS = {
    shared: "a block runs twice for one example",
    reversed_order: "something before the last frozen block is trained",
    skipping: "with them a loss differs by",
    random: "something before the last frozen block draws random numbers",
    skipped: "the last frozen block does not run",
    batch_norm: "with them a loss differs by",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_model_that_does_not_fit_runs_whole_and_says_why(fault, whole):
    model = loaded(Faulty(fault))
    tensors, report = adapted(model)
    assert report.trunk.startswith(f"no outputs are kept: {FAULTS[fault]}")
    whole()
    plain, _ = adapted(model)
    assert all(torch.equal(tensors[name], plain[name]) for name in plain)


def test_in_sixteen_bits_too_statistics_of_a_batch_do_not_fit():
    report = adapted(loaded(Faulty(batch_norm), precision="bf16"))[1]
    assert report.trunk.startswith(f"no outputs are kept: {FAULTS[batch_norm]}")


def test_a_trained_embedding_is_no_trunk():
    model = loaded(Texts())
    recipe = Recipe("match:embedding.*,blocks.2.*", max_steps=6, batch_size=6)
    assert "is trained" in adapted(model, recipe)[1].trunk


@pytest.mark.parametrize("shape", SHAPES)
def test_a_task_that_names_no_blocks_keeps_nothing_and_says_nothing(shape):
    model = loaded(SHAPES[shape]())
    assert adapted(model, Recipe("all", max_steps=2), examples(shape))[1].trunk == ""


def test_a_method_that_trains_the_first_block_keeps_nothing():
    assert adapted(loaded(Texts()), Recipe("lora", max_steps=2))[1].trunk == ""


def spare_step(start):
    """A step on a replica of its own, whose frozen blocks may run ahead."""
    trained, training = start.trained, start.training
    replica = training_replica(trained.template, trained.tensors, trained.scales)
    loss, make = weighted_loss(start.task), adamw(training.recipe, training.learning_rate)
    return GradientStep(replica, loss, make, training.precision, modules_in_training(replica))


def test_more_than_the_bytes_are_not_kept():
    model = loaded(Texts())
    start = model.start(texts(), RECIPE)
    spare = spare_step(start)
    ticks = keep_trunk(spare, EncodedExamples(start), range(15), Texts.blocks, 100)
    kept = drained(ticks)[1]
    assert kept.outputs is None
    assert "the limit is 100" in kept.line


def test_blocks_are_frozen_up_to_the_first_with_a_trained_tensor():
    net = seeded_module(TextEncoder)
    net.requires_grad_(False)
    assert len(frozen_blocks(net, Texts.blocks)) == 3
    net.blocks[1].norm.weight.requires_grad_(True)
    assert [*frozen_blocks(net, Texts.blocks)] == [net.blocks[0]]
    assert frozen_blocks(net, "(?!)") == []


def test_tokens_cost_less_by_the_share_of_frozen_blocks():
    net = seeded_module(TextEncoder)
    assert relief_of(net, Texts.blocks) == 1.0
    net.requires_grad_(False)
    assert relief_of(net, Texts.blocks) == 4.0
    net.blocks[2].norm.weight.requires_grad_(True)
    assert relief_of(net, Texts.blocks) == 2.0
    assert relief_of(net, "(?!)") == 1.0


def test_long_batches_of_the_trunk_are_ticks_of_at_most_the_tokens():
    task = Texts()
    task.part_tokens = 6  # a forward alone costs a third
    model = loaded(task)
    start = model.start(texts(), RECIPE)
    ticks = keep_trunk(spare_step(start), EncodedExamples(start), range(15), Texts.blocks)
    seen, kept = drained(ticks)
    assert kept.line == KEPT
    assert len(seen) > 15 // RECIPE.batch_size + 5


@pytest.mark.parametrize(
    ("recipe", "train", "expected"),
    [
        (Recipe(max_steps=10, batch_size=4), 20, 20),
        (Recipe(max_steps=9, batch_size=4), 20, 0),  # each example is seen less than twice
        (Recipe(max_steps=1000, batch_size=4, budget_seconds=1.0), 32, 32),
        (Recipe(max_steps=1000, batch_size=4, budget_seconds=1.0), 33, 0),
        (Recipe(max_steps=2, batch_size=32), 5, 5),
    ],
)
def test_outputs_are_kept_where_that_pays(recipe, train, expected):
    positions = trunk_positions(recipe, range(train), [100])
    assert positions == ([*range(expected), 100] if expected else [])


def test_the_base_is_left_as_it_was():
    model = loaded(Texts())
    adapted(model)
    assert model.base.census.changes(model.base.module) == []
    kinds = {type(part).__name__ for part in model.base.template.modules()}
    assert not any(kind.startswith("Kept") for kind in kinds)
    assert present(model.base.module).blocks[0].__class__.__name__ == "TextBlock"
