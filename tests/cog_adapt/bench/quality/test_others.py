"""A short run on numbers goes through, and goals are judged."""

import json
import math
from dataclasses import replace

import pytest
import torch

from bench.quality import others
from bench.quality.models import LINEAR, OWN, Model
from bench.quality.others import DATA, goals_of, report
from bench.quality.records import Records, measured
from bench.quality.scores import Scores
from bench.quality.subjects import SUBJECTS
from bench.quality.turns import Plan, results_of, turns
from bench.sets.rows import Row
from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.model_runner import ModelRunner
from cog_adapt.runner.modules.adapters import Adapter
from gradient_check.phases.precision import Precision
from gradient_check.tests.present import NOT_USED

PATIENTS = Row("diabetes", 8)
PLAN = Plan([PATIENTS], splits=1, recipe=Recipe(max_steps=2))
PRECISION = Precision(torch.device("cpu"))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    settings = RunnerSettings(device="cpu", weights_dir=tmp_path_factory.mktemp("weights"))
    with ModelRunner(SUBJECTS["diabetes"].task(), settings) as runner:
        yield Model.of(SUBJECTS["diabetes"].own, runner)


def always(accuracy, log_loss=1.0, error=0.05, seconds=1.0):
    return lambda split, recipe: Scores(accuracy, log_loss, error, seconds)


def test_every_contestant_adapts_to_numbers_and_is_reported(model, tmp_path):
    records = Records(tmp_path / "records.jsonl")
    measured(turns(PLAN, DATA, model.contestants), records)
    found = results_of(PLAN, DATA, records)
    assert found["diabetes:8"].keys() == {"base", "linear", "own", "auto"}
    assert found["diabetes:8"]["base"][0].accuracy == pytest.approx(0.39, abs=0.05)
    report(PLAN, found, {}).publish(PRECISION, tmp_path / "others.json")
    rows = json.loads((tmp_path / "others.json").read_text())["rows"]
    assert {row["log loss"] for row in rows} == {None}
    measured(turns(PLAN, DATA, dict.fromkeys(model.contestants, NOT_USED)), records)


def test_a_head_answers_from_kept_features_as_the_runner_does(model):
    split = SUBJECTS["diabetes"].draw(PATIENTS, 0)
    done = model.runner.adapt(split.train, Recipe(method="head"))
    assert isinstance(done.adapter, Adapter)
    frozen = model.from_features(split, done.adapter)
    served = torch.tensor(model.runner.predict([each.input for each in split.test], done.adapter))
    torch.testing.assert_close(frozen.reshape(-1), served, rtol=1e-4, atol=1e-4)


def test_examples_and_test_are_apart_and_fewer_are_a_part_of_more():
    few, many = (SUBJECTS["diabetes"].draw(Row("diabetes", count), 3) for count in (8, 64))
    assert (len(few.train), len(many.train)) == (8, 64)
    assert few.train == many.train[:8]
    assert not [each for each in many.train if each in many.test]


def test_goals_are_judged_on_pictures_and_on_numbers(monkeypatch, tmp_path):
    clothes, numbers = Row("clothes", 8), Row("ratings", 8)
    subject = SUBJECTS["diabetes"]
    monkeypatch.setattr(others, "SUBJECTS", dict.fromkeys(("clothes", "ratings"), subject))
    plan, records = Plan([clothes, numbers], 1, Recipe()), Records(tmp_path / "records.jsonl")
    chosen = {"base": always(0.1, 2.3), LINEAR: always(0.7), OWN: always(0.6)}
    chosen["auto"] = always(0.69, error=0.1, seconds=1.5)
    measured(turns(replace(plan, rows=[clothes]), DATA, chosen), records)
    none = {"log_loss": math.nan, "error": math.nan}
    rated = {LINEAR: always(0.3, **none), "auto": always(0.2, **none)}
    measured(turns(replace(plan, rows=[numbers]), DATA, rated), records)
    goals = goals_of(plan, results_of(plan, DATA, records))
    of_pictures, of_ratings = ([str(value) for value in row.values()][1:] for row in goals.rows)
    assert of_pictures == ["-0.010 met", "-1.300 met", "0.100 MISSED", "1.500 met"]
    assert of_ratings == ["-0.100 MISSED", "None", "None", "None"]
    assert goals.settings["rows that miss a goal"] == "clothes:8, ratings:8"
