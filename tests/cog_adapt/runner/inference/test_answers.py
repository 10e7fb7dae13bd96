"""The base and adapters answer, and stream, each in an inference phase."""

from typing import Any

import pytest
import torch

from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.inference.answers import (
    Phase,
    Query,
    find_shortened,
    generate_pieces,
    options_of,
    predict_batch,
)
from cog_adapt.runner.inference.served_adapters import ReadyAdapter, ServedAdapters
from cog_adapt.runner.model.loaded_model import LoadedModel
from cog_adapt.runner.task.task import on_device
from gradient_check.phases.precision import Precision
from gradient_check.tests.models import LABELS
from gradient_check.tests.present import present
from tests.cog_adapt.devices import DEVICE, PLACE
from tests.cog_adapt.models import SHAPES, Letters, examples, inputs, labels

FP32 = Precision(torch.device(PLACE))


@pytest.mark.parametrize("serve_mode", ["inference_mode", "no_grad"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_batch_is_answered_with_plain_values_as_the_bare_module_would(shape, serve_mode):
    model = LoadedModel(SHAPES[shape](), RunnerSettings(device=DEVICE, precision="fp32"))
    served = ReadyAdapter(model.base.module, labels(shape))
    rows = inputs(shape, 4)
    answers = predict_batch(
        Phase(model.task, FP32, serve_mode), served, model.task.encode(rows), None
    )
    assert len(answers) == 4
    with torch.no_grad():
        batch = on_device(model.task.encode(rows), FP32.device)
        alone = model.task.predict(model.base.module, batch, labels(shape), None)
    assert answers == alone


@pytest.mark.parametrize("shape", SHAPES)
def test_an_adapted_model_answers_from_its_adapter_as_the_replica_did(shape):
    """What comes back from a file serves the very numbers that training reached."""
    model = LoadedModel(SHAPES[shape](), RunnerSettings(device=DEVICE, precision="fp32"))
    ticks: Any = model.adapting(examples(shape, 12), Recipe("all", max_steps=5, learning_rate=0.02))
    next(ticks)  # what it needs
    next(ticks)
    run = None
    while True:
        try:
            inner = ticks.gi_yieldfrom
            while inner.gi_code.co_name != "adapt":
                inner = inner.gi_yieldfrom
            run = inner.gi_frame.f_locals["run"]
            next(ticks)
        except StopIteration as stop:
            adapter = stop.value.adapter
            break
    rows = inputs(shape, 4)
    replica = ReadyAdapter(present(run).take_step.replica, adapter.labels)
    expected = predict_batch(
        Phase(model.task, FP32, "no_grad"), replica, model.task.encode(rows), None
    )
    served = ServedAdapters(model.base.template, FP32, 1, 2**40).get("x", lambda: adapter)
    assert (
        predict_batch(
            Phase(model.task, FP32, "inference_mode"), served, model.task.encode(rows), None
        )
        == expected
    )
    assert expected != predict_batch(
        Phase(model.task, FP32, "no_grad"),
        ReadyAdapter(model.base.module, ()),
        model.task.encode(rows),
        None,
    )


class Spelling(Letters):
    closed = False

    def generate(self, module, batch, options):
        try:
            for number in range(3):
                yield number, torch.is_inference_mode_enabled(), module.training
        finally:
            self.closed = True


def test_each_piece_is_made_in_an_inference_phase_and_none_is_on_in_between():
    task = Spelling()
    model = LoadedModel(task, RunnerSettings(device=DEVICE, precision="fp32"))
    served = ReadyAdapter(model.base.module, LABELS)
    pieces = generate_pieces(Phase(model.task, FP32, "inference_mode"), served, ["ab"], None)
    for number in range(3):
        assert next(pieces) == (number, True, False)
        assert not torch.is_inference_mode_enabled()
    assert [*pieces] == []
    assert task.closed


def test_who_stops_reading_ends_the_tasks_own_generator():
    task = Spelling()
    model = LoadedModel(task, RunnerSettings(device=DEVICE, precision="fp32"))
    phase = Phase(model.task, FP32, "no_grad")
    pieces = generate_pieces(phase, ReadyAdapter(model.base.module, LABELS), ["ab"], None)
    assert next(pieces) == (0, False, False)
    pieces.close()
    assert task.closed


def test_options_of_another_class_are_refused():
    task = SHAPES["letters"]()
    assert options_of(task, Query(["ab"])) is None
    with pytest.raises(InputError, match="options are dict; Letters takes NoneType. Send those."):
        options_of(task, Query(["ab"], options={}))


def test_looking_for_cut_inputs_takes_a_tick_a_batch():
    class Cutting(Letters):
        def shortened(self, inputs):
            return [position for position, text in enumerate(inputs) if text == "long"]

    work = find_shortened(Cutting(), ["long", "a", "b", "long", "long"], 2)
    assert [next(work) for _ in range(2)] == [None] * 2
    with pytest.raises(StopIteration) as ended:
        next(work)
    assert ended.value.value == [0, 3, 4]
