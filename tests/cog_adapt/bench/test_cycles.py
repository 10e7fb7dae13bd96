"""Nothing is left of runs that are over: the short form of `make cycles`."""

import math

import pytest
import torch

from bench.cycles import Cycles, left, measure
from bench.small_task import SmallTask
from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.model_runner import ModelRunner

ROW = {"base bytes changed": 0, "tickets left": 0, "threads": 0, "descriptors": 0, "last third": 0}


def test_cycles_of_every_kind_leave_nothing():
    row = measure(60, math.inf, 0)
    assert row["cycles"] == 60
    assert min(row[name] for name in ("adapted", "cancelled", "failed", "batches", "waited")) > 0
    assert [words for words in left(row) if "memory" not in words] == []  # no cache is full yet


def test_one_changed_bit_of_the_base_is_one_byte(tmp_path):
    settings = RunnerSettings(device="cpu", weights_dir=tmp_path)
    with ModelRunner(SmallTask(), settings) as runner:
        work = Cycles(runner, 0)
        work.compare()
        assert work.changed == 0
        runner.model.base.module.get_parameter("norm.weight").data.view(torch.int32)[3] ^= 1
        work.compare()
        assert work.changed == 1


def test_no_cycle_begins_after_the_time_is_over():
    assert measure(60, 0.0, 0)["cycles"] == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, []),
        ({"base bytes changed": 1}, ["base bytes changed: 1"]),
        ({"tickets left": 2}, ["tickets left: 2"]),
        ({"threads": 1}, ["threads: 1"]),
        ({"descriptors": 1}, ["descriptors: 1"]),
        ({"last third": 8.1}, ["memory: +8.1 MB in the last third"]),
        ({"last third": 7.9}, []),
    ],
)
def test_what_is_left_is_named(change, words):
    assert left(ROW | change) == words
