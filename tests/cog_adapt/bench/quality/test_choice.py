"""Rules are judged on recorded trainings, by what other groups chose; `auto` is one of them."""

import functools
import json
from dataclasses import replace

import pytest
import torch

pytest.importorskip("task", reason="the shipped task is not here")

from bench.quality import choice
from bench.quality.cases import Case
from bench.quality.judgement import (
    CHOSEN,
    Figures,
    choose,
    error_by_chance,
    figures_of,
    judge,
    read,
    write,
)
from bench.quality.recorder import Recorder
from bench.quality.rules import AUTO, FEW, HEAD, MANY, ONE, Judged
from bench.quality.trainings import (
    LORA,
    Fold,
    Moved,
    Run,
    Training,
    in_turn,
    kept,
    path_of,
    split_of,
)
from bench.quality.trainings import write as keep
from bench.sets.rows import Row
from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.heads.decision import CLOSED, GRADIENTS, MIDDLE
from cog_adapt.runner.model.loaded_model import LoadedModel
from cog_adapt.runner.model_runner import ModelRunner
from gradient_check.phases.precision import Precision
from task import TextClassification

CPU = Precision(torch.device("cpu"))
WIDTH, TESTED = 8, 20
NEUTRAL = Figures(accuracy=0.5, log_loss=1.0, calibration_error=0.1, by_chance=0.1, seconds=0.0)


def training_of(row, steps=("12", "24")):
    """Make up a split of two labels."""
    chance = torch.Generator().manual_seed(0)

    def drawn(*shape):
        return torch.randn(*shape, generator=chance)

    def moved(count):
        names = (GRADIENTS, CLOSED, MIDDLE)
        return Moved({name: 3 * drawn(count, 2) for name in names}, seconds=1.0)

    targets = torch.arange(2 * row.per_label) % 2
    half = torch.arange(len(targets)) < len(targets) // 2
    pairs = ((half, ~half), (~half, half))
    case = Case(
        row=row,
        seed=0,
        digest="made up",
        features=drawn(len(targets), WIDTH),
        targets=targets,
        test=drawn(TESTED, WIDTH),
        wanted=torch.arange(TESTED) % 2,
        names=drawn(2, WIDTH),
    )
    runs = {LORA: Run(moved(TESTED))}
    for count in steps if row.per_label > 1 else ():
        folds = [(train.nonzero()[:, 0], others.nonzero()[:, 0]) for train, others in pairs]
        each = tuple(Fold(*fold, moved(len(fold[1]))) for fold in folds)
        runs[count] = Run(moved(TESTED), each)
    return Training(case, runs)


@functools.cache
def judged_of_few():
    return judge(training_of(Row("urgency", 4), ("24",)))


@pytest.mark.parametrize(
    ("row", "regime", "same"),
    [
        (Row("urgency", 1), ONE, "0 closed, scale 1.2, power 2 of labels"),
        (Row("urgency", 4), FEW, "24 steps, 0.5 closed, scale 0.5 and 1"),
        (Row("urgency", 15), MANY, None),
    ],
)
def test_every_contestant_and_rule_answers_in_each_regime(row, regime, same):
    judgement = judge(training_of(row, ("24",) if regime == FEW else ("20",)))
    assert judgement.regime == regime
    assert {"zero-shot", "logistic", HEAD, LORA, AUTO, CLOSED} <= judgement.figures.keys()
    assert set(judgement.rules) <= judgement.figures.keys()
    if same in judgement.figures:
        losses = [judgement.figures[name].log_loss for name in (same, AUTO)]
        assert losses[0] == pytest.approx(losses[1], abs=1e-5)


def test_what_is_recorded_as_auto_is_what_auto_answers(tmp_path):
    row = Row("urgency", 4)
    settings = RunnerSettings(device="cpu", weights_dir=tmp_path / "weights")
    with ModelRunner(TextClassification(), settings) as runner:
        split, _ = split_of(row, 0)
        adapter = runner.adapt(split.train, Recipe(method="auto")).adapter
        answers = runner.predict([each.input for each in split.test], adapter)
    assert Recorder(LoadedModel(TextClassification(), settings), tmp_path).record(row, 0)
    (training,) = kept([row], [0], tmp_path)
    labels = list(dict.fromkeys(each.target for each in split.train))
    served = torch.tensor([[each["scores"][label] for label in labels] for each in answers])
    torch.testing.assert_close(Judged(training).rules()[AUTO].float(), served, atol=2e-3, rtol=0.0)


def test_a_training_that_was_cut_off_is_none(tmp_path):
    training = training_of(Row("urgency", 4))
    keep(training, tmp_path)
    (found,) = kept([training.case.row], range(2), tmp_path)
    torch.testing.assert_close(found.case.features, training.case.features)
    assert found.runs[LORA].whole.outputs.keys() == training.runs[LORA].whole.outputs.keys()
    assert found.runs["24"].seconds == training.runs["24"].seconds == 3.0
    path_of(training.case.row, 0, tmp_path).rename(tmp_path / "urgency-4-1.part")
    assert not [*kept([training.case.row], range(2), tmp_path)]


def test_all_rows_of_a_seed_come_before_the_next_seed():
    turns = in_turn(["urgency", "phishing"], range(2))
    assert [seed for _, seed in turns] == [0] * 12 + [1] * 12
    assert {row.set_name for row, _ in turns[:2]} == {"urgency", "phishing"}


def test_a_group_takes_no_part_in_what_is_chosen_for_it():
    liked = {"tone": "first", "mail": "second"}
    made = judged_of_few()
    judgements = [
        replace(
            made,
            row=f"{group}:4",
            group=group,
            figures={
                name: replace(NEUTRAL, log_loss=0.1) if name == best else NEUTRAL
                for name in (AUTO, "first", "second")
            },
            rules=(AUTO, "first", "second"),
        )
        for group, best in liked.items()
    ]
    added, choices = choose(judgements)
    assert choices == {f"{FEW}, tone": "second", f"{FEW}, mail": "first"}
    assert all(each.figures[CHOSEN] == NEUTRAL for each in added)


def test_answers_that_are_right_as_often_as_they_say_err_by_chance_alone():
    chance = torch.Generator().manual_seed(1)
    sure = 0.5 + torch.rand(2000, generator=chance) / 2
    probabilities = torch.stack([sure, 1 - sure], 1)
    few = probabilities[:50]
    assert error_by_chance(few) > 2 * error_by_chance(probabilities)
    wanted = (torch.rand(2000, generator=chance) > sure).long()
    judged = figures_of(probabilities, wanted, 0.0)
    assert judged.calibration_error == pytest.approx(judged.by_chance, abs=0.02)
    wrong = figures_of(probabilities, torch.arange(2000) % 2, 0.0)
    assert wrong.calibration_error > 5 * wrong.by_chance


def test_lines_are_judged_again_without_their_trainings(tmp_path, monkeypatch):
    lines = tmp_path / "lines.jsonl"
    made = judged_of_few()
    write([made], lines)
    monkeypatch.setattr(choice, "kept", lambda rows, seeds: iter(()))
    (found,) = choice.judged(lines, range(2))
    assert found.rules == made.rules
    assert found.figures[LORA].accuracy == pytest.approx(made.figures[LORA].accuracy, abs=1e-4)
    assert read(lines) == [found]


def test_a_split_that_has_scores_is_not_trained_again_where_its_training_is_gone(tmp_path):
    lines, row = tmp_path / "lines.jsonl", Row("urgency", 4)
    write([judged_of_few()], lines)
    turns = [(row, 0), (row, 1), (Row("urgency", 8), 0)]
    assert [*choice.pending(turns, lines)] == turns[1:]


def test_a_row_of_one_split_decides_nothing_and_of_more_where_it_is_clear(tmp_path):
    worse, lora = replace(NEUTRAL, accuracy=0.5), replace(NEUTRAL, accuracy=0.6)
    made = judged_of_few()
    made = replace(made, figures={**made.figures, AUTO: worse, LORA: lora})
    assert choice.below([made], AUTO) == "0 of 0"
    assert choice.below([made, replace(made, seed=1)], AUTO) == "1 of 1"
    even = replace(made, seed=1, figures={**made.figures, AUTO: replace(NEUTRAL, accuracy=0.8)})
    assert choice.below([made, even], AUTO) == "0 of 1"


def test_the_report_counts_splits_and_names_what_was_chosen(tmp_path):
    few = judged_of_few()
    other = replace(few, row="phishing:4", group="mail")
    judgements, choices = choose([judge(training_of(Row("urgency", 1))), few, other])
    report = choice.report(judgements, choices)
    report.publish(CPU, tmp_path / "choice.json")
    found = json.loads((tmp_path / "choice.json").read_text())
    assert found["settings"]["splits"] == 3
    assert {row["contestant"] for row in found["rows"]} == set(choice.SHOWN)
    assert next(row for row in found["rows"] if row["splits"] == FEW)["count"] == 2
