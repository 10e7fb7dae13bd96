"""A run measures what has no record, and sums up what all runs have recorded."""

import json

import pytest
import torch

from bench.quality.outcome import Outcome, scored
from bench.quality.records import Records, measured
from bench.quality.texts import DATA, matching, named, report
from bench.quality.turns import Plan, results_of, turns
from bench.rivals import labels_of
from bench.sets.rows import Row
from cog_adapt.runner.config import Recipe
from gradient_check.phases.precision import Precision

PLAN = Plan([Row("tickets", 4), Row("intents", 4)], splits=2, recipe=Recipe())


class Uniform:
    """A contestant that says every label is as probable as any other, and counts its turns."""

    def __init__(self):
        self.turns = []

    def __call__(self, split, recipe):
        labels = labels_of(split.train)
        self.turns.append((len(labels), recipe.seed))
        return Outcome(labels, torch.full((len(split.test), len(labels)), 1 / len(labels)), 0.5)


@pytest.fixture
def records(tmp_path):
    return Records(tmp_path / "records.jsonl")


def measure(records, **contestants):
    chosen = {name: scored(contestant) for name, contestant in contestants.items()}
    measured(turns(PLAN, DATA, chosen), records)


def test_every_row_of_a_split_comes_before_the_next_split(records):
    uniform = Uniform()
    measure(records, zero=uniform)
    assert uniform.turns == [(10, 0), (12, 0), (10, 1), (12, 1)]


def test_a_second_run_measures_only_what_is_missing(records):
    first, second, late = Uniform(), Uniform(), Uniform()
    measure(records, zero=first)
    measure(records, zero=second, lora=late)
    assert not second.turns
    assert len(late.turns) == 4


def test_the_report_holds_every_recorded_contestant_and_can_be_written(records, tmp_path):
    measure(records, lora=Uniform())
    measure(records, zero=Uniform())
    found = report(PLAN, results_of(PLAN, DATA, records), {})
    found.publish(Precision(torch.device("cpu")), tmp_path / "quality.json")
    rows = json.loads((tmp_path / "quality.json").read_text())["rows"]
    assert [(row["row"], row["contestant"]) for row in rows] == [
        (name, contestant) for name in ("tickets:4", "intents:4") for contestant in ("lora", "zero")
    ]
    assert rows[0]["log loss"]["mean"] == pytest.approx(2.3026, abs=1e-4)


def test_rows_are_chosen_by_globs_and_a_glob_without_one_is_refused():
    assert [row.name for row in matching("spam:8,intents:*")] == [
        "spam:8",
        "intents:4",
        "intents:8",
    ]
    with pytest.raises(SystemExit, match="no row matches 'tacos"):
        matching("tacos:*")


def test_an_unknown_contestant_is_refused_and_a_missing_one_is_not():
    found = {"lora": Uniform()}
    assert named("lora,auto", found) == ["lora", "auto"]
    assert named("", found) == ["lora"]
    with pytest.raises(SystemExit, match="no contestant is named 'best'"):
        named("best", found)
