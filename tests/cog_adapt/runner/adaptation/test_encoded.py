"""Examples become batches with targets, weights and positions; on a GPU their shapes are few."""

import dataclasses

import pytest
import torch

from cog_adapt.runner.adaptation.encoded import EncodedExamples
from cog_adapt.runner.adaptation.start import encode_examples
from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.model.loaded_model import LoadedModel
from gradient_check.phases.precision import Precision
from gradient_check.tests.models import LABELS
from tests.cog_adapt.devices import DEVICE
from tests.cog_adapt.models import SHAPES, examples
from tests.cog_adapt.texts import Texts


def started(task, rows, device=DEVICE, **changes):
    start = LoadedModel(task, RunnerSettings(device=device)).start(rows, Recipe(max_steps=1))
    return dataclasses.replace(start, data=dataclasses.replace(start.data, **changes))


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_are_those_that_the_task_encodes(shape):
    start = started(SHAPES[shape](), examples(shape, 8))
    encoded = EncodedExamples(start)
    for chosen in ([5, 0, 3], [1, 1, 7]):
        rows = encoded.rows(chosen)
        whole = [start.data.examples[position] for position in chosen]
        batch, targets = encode_examples(
            start.task, whole, start.data.labels, start.training.precision.device
        )
        assert rows.batch.keys() == batch.keys()
        assert all(torch.equal(rows.batch[name], batch[name]) for name in batch)
        assert torch.equal(rows.targets, targets)
        assert (rows.weights, rows.positions) == (None, tuple(chosen))


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_that_are_kept_are_those_that_the_task_encodes(shape):
    class Kept:
        def __init__(self):
            self.rows = {}

        def get_row(self, value):
            return self.rows.get(repr(value))

        def put_row(self, value, row):
            self.rows[repr(value)] = row

    kept = Kept()
    start = started(SHAPES[shape](), examples(shape, 8), kept_rows=kept)
    plain = EncodedExamples(start.with_kept_rows(None)).rows([5, 0, 3, 3])
    for _ in range(2):
        rows = EncodedExamples(start).rows([5, 0, 3, 3])
        assert all(torch.equal(rows.batch[name], plain.batch[name]) for name in plain.batch)
        assert torch.equal(rows.targets, plain.targets)
    assert len(kept.rows) == (3 if DEVICE == "cpu" else 8)  # a GPU compares all lengths first


def test_weights_follow_their_examples():
    start = started(SHAPES["images"](), examples("images", 4), weights=[0.5, 1.0, 2.0, 4.0])
    weights = EncodedExamples(start).rows([3, 0]).weights
    assert weights is not None
    assert weights.tolist() == [4.0, 0.5]


def of_lengths(lengths):
    return [Example("abcdefghijklmnopqrstuvwxyz"[:n], LABELS[n % 3]) for n in lengths]


def test_on_a_gpu_lengths_are_multiples_of_16_and_not_longer_than_the_longest():
    meta = Precision(torch.device("meta"))
    start = started(Texts(), of_lengths([3, 9, 15, 17, 20]))
    start = dataclasses.replace(start, training=dataclasses.replace(start.training, precision=meta))
    rows = EncodedExamples(start).rows
    assert [rows([n]).batch["ids"].shape[1] for n in range(5)] == [16, 16, 16, 20, 20]
    assert rows([0, 3]).batch["ids"].device.type == "meta"


def test_on_a_cpu_a_batch_is_as_long_as_its_longest():
    rows = EncodedExamples(started(Texts(), of_lengths([3, 9, 15, 17, 20]), "cpu")).rows
    assert [rows([n]).batch["ids"].shape[1] for n in range(5)] == [3, 9, 15, 17, 20]
