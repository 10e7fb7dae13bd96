"""The base and adapters answer; the longest unused adapter goes first."""

from typing import Any

import pytest
import torch

from cog_adapt.runner.adapters import Adapter
from cog_adapt.runner.config import Precision, Recipe, RunnerSettings
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.inference import (
    Phase,
    Query,
    Served,
    ServedAdapters,
    find_shortened,
    generate_pieces,
    options_of,
    predict_batch,
)
from cog_adapt.runner.loaded_model import LoadedModel
from cog_adapt.runner.replicas import freeze, make_template
from tests.cog_adapt.models import (
    LABELS,
    SHAPES,
    ConvNet,
    Letters,
    examples,
    inputs,
    labels,
    seeded_module,
)
from tests.cog_adapt.present import present

FP32 = Precision(torch.device("cpu"))


@pytest.fixture
def served():
    base = seeded_module(ConvNet)
    freeze(base)
    return ServedAdapters(make_template(base), FP32, limit=2, most_bytes=48)


def adapter_of(value):
    return Adapter({"head.bias": torch.full((3,), float(value))}, LABELS, "head", "0" * 16)


def never():
    pytest.fail("it was ready")


def test_an_adapter_is_made_once_while_it_is_kept(served):
    first = served.get("a", lambda: adapter_of(1))
    assert served.get("a", never) is first
    assert first.module.head.bias.tolist() == [1.0] * 3
    assert first.labels == LABELS


def test_the_longest_unused_goes_first(served):
    a, b = (served.get(key, lambda: adapter_of(1)) for key in "ab")
    served.get("a", never)
    served.get("c", lambda: adapter_of(3))
    assert served.get("a", never) is a
    assert served.get("b", lambda: adapter_of(2)) is not b


def test_bytes_are_bounded_too_but_the_one_that_is_asked_for_is_served(served):
    def wide(rows):
        return Adapter({"head.bias": torch.ones(rows)}, LABELS, "head", "0" * 16)

    assert served.get("a", lambda: wide(3)).bytes == served.bytes == 12
    served.get("b", lambda: wide(10))
    assert (served.bytes, len(served)) == (40, 1)
    served.get("c", lambda: wide(100))
    assert (served.bytes, len(served), served.hits, served.misses) == (400, 1, 0, 3)
    served.get("d", lambda: wide(3))
    assert (served.bytes, len(served)) == (12, 1)


def test_a_removed_adapter_is_let_go_whoever_asked_for_it(served):
    adapter = adapter_of(1)
    for key in ("ann/x", "bob/x"):
        served.get(key, lambda: adapter)
    served.forget("0" * 16)
    assert len(served) == 2
    served.forget(adapter.id)
    assert (len(served), served.bytes) == (0, 0)


def test_what_cannot_be_made_takes_no_place(served):
    served.get("a", lambda: adapter_of(1))

    def failing():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        served.get("b", failing)
    served.get("c", lambda: adapter_of(1))
    served.get("a", never)


@pytest.mark.parametrize("serve_mode", ["inference_mode", "no_grad"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_batch_is_answered_with_plain_values_as_the_bare_module_would(shape, serve_mode):
    model = LoadedModel(SHAPES[shape](), RunnerSettings(device="cpu"))
    served = Served(model.base, labels(shape))
    rows = inputs(shape, 4)
    answers = predict_batch(Phase(model.task, FP32, serve_mode), served, rows, None)
    assert len(answers) == 4
    with torch.no_grad():
        alone = model.task.predict(model.base, model.task.encode(rows), labels(shape), None)
    assert answers == alone


@pytest.mark.parametrize("shape", SHAPES)
def test_an_adapted_model_answers_from_its_adapter_as_the_replica_did(shape):
    """What comes back from a file serves the very numbers that training reached."""
    model = LoadedModel(SHAPES[shape](), RunnerSettings(device="cpu"))
    ticks: Any = model.adapting(examples(shape, 12), Recipe("all", max_steps=5, learning_rate=0.02))
    next(ticks)
    run = None
    while True:
        try:
            inner = ticks.gi_yieldfrom
            run = inner.gi_frame.f_locals["run"]
            next(ticks)
        except StopIteration as stop:
            adapter = stop.value.adapter
            break
    rows = inputs(shape, 4)
    replica = Served(present(run).take_step.replica, adapter.labels)
    expected = predict_batch(Phase(model.task, FP32, "no_grad"), replica, rows, None)
    served = ServedAdapters(model.template, FP32, 1, 2**40).get("x", lambda: adapter)
    assert predict_batch(Phase(model.task, FP32, "inference_mode"), served, rows, None) == expected
    assert expected != predict_batch(
        Phase(model.task, FP32, "no_grad"), Served(model.base, ()), rows, None
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
    model = LoadedModel(task, RunnerSettings(device="cpu"))
    served = Served(model.base, LABELS)
    pieces = generate_pieces(Phase(model.task, FP32, "inference_mode"), served, ["ab"], None)
    for number in range(3):
        assert next(pieces) == (number, True, False)
        assert not torch.is_inference_mode_enabled()
    assert [*pieces] == []
    assert task.closed


def test_who_stops_reading_ends_the_tasks_own_generator():
    task = Spelling()
    model = LoadedModel(task, RunnerSettings(device="cpu"))
    phase = Phase(model.task, FP32, "no_grad")
    pieces = generate_pieces(phase, Served(model.base, LABELS), ["ab"], None)
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
