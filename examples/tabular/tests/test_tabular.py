"""The tabular model: numbers or classes, by the columns of the examples."""

import json
import statistics
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from cog_adapt import Example, InputError, ModelRunner, Recipe, RunnerSettings, WeightsError
from examples.tabular.network import COLUMNS
from examples.tabular.task import Table

ROWS = Path(__file__).parents[1] / "examples" / "rows.jsonl"
PATIENTS = [json.loads(line) for line in ROWS.read_text().splitlines()]


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    settings = RunnerSettings(device="cpu", weights_dir=tmp_path_factory.mktemp("weights"))
    with ModelRunner(Table(), settings) as runner:
        yield runner


def made_up(count):
    drawn = torch.randn(count, len(COLUMNS), generator=torch.Generator().manual_seed(0)).tolist()
    means = [50, 26, 95, 189, 115, 50, 4, 4.6, 91]
    return [
        dict(zip(COLUMNS, (m + m * 0.1 * d for m, d in zip(means, row, strict=True)), strict=True))
        for row in drawn
    ]


def test_gradients_reach_every_parameter(runner):
    report = runner.self_test()
    assert report.passed, str(report)


def test_it_learns_numbers(runner):
    rows = made_up(60)
    examples = [Example(row, row["bmi"] * 10) for row in rows[:40]]
    adapter = runner.adapt(examples, Recipe(method="auto")).adapter

    def error(numbers):
        pairs = zip(numbers, rows[40:], strict=True)
        return statistics.fmean((number - row["bmi"] * 10) ** 2 for number, row in pairs)

    assert error(runner.predict(rows[40:], adapter)) < error(runner.predict(rows[40:])) / 3


def test_it_learns_classes(runner):
    rows = made_up(60)
    examples = [Example(row, "wide" if row["bmi"] > 26 else "slim") for row in rows[:40]]
    adapter = runner.adapt(examples, Recipe(method="auto")).adapter
    said = [answer["label"] for answer in runner.predict(rows[40:], adapter)]
    right = [
        label == ("wide" if row["bmi"] > 26 else "slim")
        for label, row in zip(said, rows[40:], strict=True)
    ]
    assert statistics.fmean(right) > 0.75


def test_a_row_without_a_column_is_refused_by_its_name():
    row = {name: value for name, value in PATIENTS[0].items() if name != "bmi"}
    said = "'bmi' is missing. A row has a number for each of age, bmi"
    with pytest.raises(InputError, match=said):
        Table().example(row)


def test_a_row_without_an_answer_is_refused_with_both_names():
    values = {name: value for name, value in PATIENTS[0].items() if name != "target"}
    with pytest.raises(InputError, match="no 'target' and no 'label'"):
        Table().example(values)


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        (["a", 1.0, "b"], "row 2 has a number as target, and other rows have labels"),
        (["a", "a"], "all rows have the label 'a'. Give rows of another label"),
    ],
)
def test_rows_with_labels_that_cannot_be_learned_are_refused(targets, said):
    with pytest.raises(InputError, match=said):
        Table().labels([Example({}, target) for target in targets])


def test_weights_of_another_model_are_named(tmp_path, monkeypatch):
    save_file({"other": torch.zeros(1)}, tmp_path / "other.safetensors")
    monkeypatch.setenv("MODEL", str(tmp_path / "other.safetensors"))
    with pytest.raises(WeightsError, match="has no weights of Network: .*Set MODEL"):
        Table().load()
