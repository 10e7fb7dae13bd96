"""A head is found by its shape; what is kept of its features is not computed again."""

import itertools

import pytest
import torch

from cog_adapt.runner.auto.head import HeadNames, features_of, outputs_of
from cog_adapt.runner.errors import AdaptationError, InputError
from cog_adapt.runner.heads.linear_head import LinearHead
from cog_adapt.runner.inference.label_tensors import finished
from gradient_check.tests.models import LABELS, WIDTH
from tests.cog_adapt.devices import DEVICE
from tests.cog_adapt.models import Images
from tests.cog_adapt.runner.featured import Featured, loaded, separated

ROWS = separated(7)
INPUTS = [example.input for example in ROWS]


@pytest.fixture(scope="module")
def model():
    return loaded(Featured())


class Kept:
    """Keeps rows by what they are of, and the inputs that it was given."""

    def __init__(self):
        self.rows, self.given, self.found = {}, [], 0

    def get(self, inputs):
        return [self.rows.get(tuple(each)) for each in inputs]

    def put(self, inputs, rows):
        self.given += inputs
        self.rows.update({tuple(each): row for each, row in zip(inputs, rows, strict=True)})


def computed(model, inputs, size=3, kept=None):
    return finished(features_of(model.predictions.phase, model.base.module, inputs, size, kept))


def test_the_one_matrix_of_that_width_is_the_head():
    tensors = {
        "head.weight": torch.zeros(3, 8),
        "head.bias": torch.zeros(3),
        "head.scale": torch.zeros(8),
        "inner.weight": torch.zeros(8, 4),
    }
    assert HeadNames.of(tensors, 8) == HeadNames("head", "head.weight", "head.bias")
    del tensors["head.bias"]
    assert HeadNames.of(tensors, 8) == HeadNames("head", "head.weight", None)


@pytest.mark.parametrize(
    "tensors",
    [
        {},
        {"head.weight": torch.zeros(3, 4)},
        {"head.weight": torch.zeros(8)},
        {"head.rows": torch.zeros(3, 8)},
        {"head.weight": torch.zeros(3, 8), "other.weight": torch.zeros(3, 8)},
    ],
)
def test_no_matrix_of_that_width_or_several_is_no_head(tensors):
    assert HeadNames.of(tensors, 8) is None


def test_a_head_is_read_and_written_by_its_names():
    tensors = {"head.weight": torch.ones(3, 8).double(), "head.bias": torch.arange(3.0)}
    names = HeadNames.of(tensors, 8)
    assert names is not None
    head = names.read(tensors)
    assert head.weight.dtype is torch.float32
    assert names.write(head).keys() == tensors.keys()
    assert torch.equal(names.write(head)["head.bias"], tensors["head.bias"])


def test_a_head_without_a_bias_is_read_with_none_and_written_without():
    names = HeadNames("head", "head.weight", None)
    head = names.read({"head.weight": torch.ones(3, 8)})
    assert head.bias.tolist() == [0, 0, 0]
    assert list(names.write(LinearHead(torch.ones(3, 8), torch.ones(3)))) == ["head.weight"]


@pytest.mark.parametrize("size", [1, 3, 32])
def test_features_are_a_row_for_each_input_in_their_order(model, size):
    expected = model.base.module.trunk(torch.tensor(INPUTS, device=DEVICE)).detach().cpu()
    found = computed(model, INPUTS, size)
    torch.testing.assert_close(found, expected)
    assert not found.is_inference()


def test_features_take_a_batch_a_tick(model):
    phase = model.predictions.phase
    assert len(list(features_of(phase, model.base.module, INPUTS, 3))) == 3


def test_only_what_is_not_kept_is_computed(model):
    kept = Kept()
    whole = computed(model, INPUTS[1:4], 3, kept)
    kept.given.clear()
    kept.rows[tuple(INPUTS[2])] = torch.full((WIDTH,), 7.0)
    found = computed(model, INPUTS, 3, kept)
    assert kept.given == [INPUTS[0], *INPUTS[4:]]
    assert found[2].tolist() == [7.0] * WIDTH
    assert torch.equal(found[1], whole[0])
    torch.testing.assert_close(found[3:], computed(model, INPUTS[3:]))


def test_where_memory_runs_out_features_are_computed_in_halves(model, monkeypatch):
    whole, given = computed(model, INPUTS, 3), []
    features = type(model.task).features

    def hungry(task, module, batch):
        given.append(len(batch["x"]))
        if len(batch["x"]) > most:
            raise MemoryError
        return features(task, module, batch)

    monkeypatch.setattr(type(model.task), "features", hungry)
    most = 2
    torch.testing.assert_close(computed(model, INPUTS, 3), whole)
    assert given[:3] == [3, 2, 1]
    most = 0
    with pytest.raises(MemoryError):
        computed(model, INPUTS, 3)


def test_what_is_kept_whole_takes_no_forward(model):
    kept = Kept()
    computed(model, INPUTS, 3, kept)
    ticks = list(features_of(model.predictions.phase, model.base.module, INPUTS, 3, kept))
    assert ticks == []


def test_many_rows_are_kept_and_found_again_some_a_tick(model):
    many = [[float(number)] * len(INPUTS[0]) for number in range(2_000)]
    kept, most = Kept(), 0
    work = features_of(model.predictions.phase, model.base.module, many, 32, kept)
    while True:
        before = len(kept.given)
        try:
            next(work)
        except StopIteration as stop:
            whole = stop.value
            break
        most = max(most, len(kept.given) - before)
    assert len(kept.given) == 2_000
    assert most <= 256
    again = list(features_of(model.predictions.phase, model.base.module, many, 32, kept))
    assert len(again) >= 7  # the looks alone: no forward is left
    assert torch.equal(computed(model, many, 32, kept), whole)


def test_a_task_without_features_has_none(model):
    other, kept = loaded(Images()), Kept()
    assert computed(other, INPUTS, 3, kept) is None
    assert kept.given == []


class Summed(Featured):
    """Gives another shape than a row for each input."""

    def __init__(self, change):
        self.change = change

    def features(self, module, batch):
        return self.change(super().features(module, batch))


@pytest.mark.parametrize(
    ("change", "shape"),
    [
        (lambda rows: rows[:, None], r"\(3, 1, 8\)"),
        (lambda rows: rows[:1], r"\(1, 8\)"),
        (lambda rows: rows.sum(1), r"\(3,\)"),
    ],
)
def test_features_of_another_shape_are_refused(change, shape):
    other = loaded(Summed(change))
    with pytest.raises(InputError, match=rf"Summed.features gives {shape} for 3 inputs"):
        computed(other, INPUTS)


@pytest.mark.parametrize("size", [1, 3, 32])
def test_outputs_are_the_heads_in_the_order_of_the_examples(model, size):
    targets = torch.tensor([LABELS.index(row.target) for row in ROWS])
    phase = model.predictions.phase
    found, _ = finished(outputs_of(phase, model.base.module, "head", ROWS, targets, size))
    expected = model.base.module(torch.tensor(INPUTS, device=DEVICE)).detach().cpu()
    torch.testing.assert_close(found, expected)
    assert not found.is_inference()


def test_nothing_is_left_on_the_module_between_two_batches(model):
    targets = torch.zeros(len(ROWS), dtype=torch.int64)
    ticks = outputs_of(model.predictions.phase, model.base.module, "head", ROWS, targets, 3)
    assert len(list(itertools.islice(ticks, 2))) == 2
    assert not model.base.module.head._forward_hooks


class Divided(Featured):
    """Its features are those of a division by zero."""

    def features(self, module, batch):
        return module.trunk(**batch) / 0.0


def test_features_that_are_not_finite_are_refused_by_the_tasks_name():
    with pytest.raises(
        AdaptationError, match=r"Divided\.features gives values that are not finite"
    ):
        computed(loaded(Divided()), INPUTS)
