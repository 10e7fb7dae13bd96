"""The rows of a label set are made a portion a tick, and are the same rows."""

import pytest
import torch

from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.inference.answers import Phase, Query
from cog_adapt.runner.inference.label_tensors import finished, label_tensors
from cog_adapt.runner.model.loaded_model import LoadedModel
from tests.cog_adapt.devices import DEVICE
from tests.cog_adapt.models import Letters, inputs


class Named(Letters):
    """A task whose rows are made of the labels' names, two at least, as the template's are."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def start(self, module, labels, examples):
        assert len(labels) >= 2
        self.asked.append(len(labels))
        rows = torch.tensor([[float(len(label)) + n for n in range(8)] for label in labels])
        return {"head.weight": rows, "head.bias": rows[:, 0].clone()}


@pytest.fixture
def model():
    return LoadedModel(Named(), RunnerSettings(device=DEVICE, batch_size=4))


def names(count):
    return tuple("a" * number for number in range(1, count + 1))


@pytest.mark.parametrize("count", [2, 4, 5, 9, 33, 100])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 32])
def test_portions_give_the_rows_of_the_whole(model, count, size):
    phase = Phase(model.task, model.base.precision, "no_grad")
    made = finished(label_tensors(phase, model.base.module, size, names(count)))
    assert max(model.task.asked) <= max(3, size)
    whole = model.task.start(model.base.module, names(count), ())
    assert {name: t.tolist() for name, t in made.items()} == {
        name: t.tolist() for name, t in whole.items()
    }


def test_a_prediction_with_many_labels_lets_others_in_between(model):
    work = model.predictions.part(Query(inputs("letters", 3), None, names(100))).working()
    for _ in range(24):  # 25 portions of four labels, the last with the three inputs
        assert next(work) is None
    with pytest.raises(StopIteration) as stop:
        next(work)
    assert len(stop.value.value) == 3


def test_a_tick_has_few_characters_of_long_names(model):
    long = tuple(f"{number:03}" + "n" * 197 for number in range(1_000))
    phase = Phase(model.task, model.base.precision, "no_grad")
    finished(label_tensors(phase, model.base.module, 32, long))
    assert sum(model.task.asked) == 1_000
    assert max(model.task.asked) * 200 <= 2_200


def test_a_task_whose_labels_call_for_nothing_gives_nothing():
    model = LoadedModel(Letters(), RunnerSettings(device=DEVICE))
    phase = Phase(model.task, model.base.precision, "no_grad")
    assert isinstance(finished(label_tensors(phase, model.base.module, 4, names(9))), dict)
