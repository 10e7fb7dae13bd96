"""Queries are answered by the base or an adapter, tick by tick."""

import pytest
import torch

from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.inference.answers import Query
from cog_adapt.runner.inference.label_tensors import finished
from cog_adapt.runner.inference.pace import InferencePace
from cog_adapt.runner.model.loaded_model import LoadedModel
from tests.cog_adapt.devices import DEVICE
from tests.cog_adapt.models import Caching, Images, inputs, labels


def load(task, **settings):
    return LoadedModel(task, RunnerSettings(device=DEVICE, batch_size=4, **settings))


def test_inputs_are_answered_in_batches_a_tick_each(monkeypatch):
    monkeypatch.setattr(
        InferencePace, "limit", lambda _: None
    )  # a slow machine would take smaller ticks
    model = load(Caching())
    rows = inputs("caching", 10)
    ticks = model.predictions.part(Query(rows, None, labels("caching"))).working()
    assert [next(ticks), next(ticks)] == [None, None]
    with pytest.raises(StopIteration) as stop:
        next(ticks)
    one_by_one = [
        finished(model.predictions.part(Query([row], None, labels("caching"))).working())[0]
        for row in rows
    ]
    torch.testing.assert_close(torch.tensor(stop.value.value), torch.tensor(one_by_one))
    assert finished(model.predictions.part(Query([], None, labels("caching"))).working()) == []


def test_labels_without_training_answer_by_the_start_tensors():
    model = load(Images())
    start = finished(model.predictions.modules.starting_adapter(("x", "y")))
    assert start.method == "start"
    assert start.tensors["head.weight"].shape == (2, 8)
    answers = finished(model.predictions.part(Query(inputs("images"), None, ("x", "y"))).working())
    assert finished(model.predictions.part(Query(inputs("images"), start, ())).working()) == answers
    with pytest.raises(InputError, match="no labels"):
        finished(model.predictions.part(Query(inputs("images"), None, ())).working())
