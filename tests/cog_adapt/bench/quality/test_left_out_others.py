"""The held half of pictures and tables judges alone, on rows that no network has learned from."""

import pytest
import torch

pytest.importorskip("task", reason="the shipped task is not here")

from bench.quality import features
from bench.quality.cases import FIRST_TO_CHOOSE
from bench.quality.features import OtherFeatures
from bench.quality.halves import OtherMeasurement, OtherSets, rows_of
from bench.quality.left_out_others import goals_of, is_below
from bench.quality.models import RUNS
from bench.quality.nameless import AS_IS, MIXTURES, PRIOR, SINGLE
from bench.quality.records import Key, Records
from bench.quality.scores import Scores
from bench.sets import others
from cog_adapt.runner.config import AUTO
from cog_adapt.runner.heads.closed_form import NAMELESS

CHOOSING, HELD = "wine", "tumours"
LIKED, LIKED_BY_HELD = list(MIXTURES)[1:3]
SETS = OtherSets((CHOOSING, HELD), judging=1, choosing=1, running=1)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(features, "FOLDER", tmp_path)


@pytest.fixture
def records(tmp_path):
    """Each half has a mixture of its own that is best there, on the splits that choose."""
    found = Records(tmp_path / "records.jsonl")
    for name, liked in ((CHOOSING, LIKED), (HELD, LIKED_BY_HELD)):
        for row in rows_of(name):
            for mixture in MIXTURES:
                key = Key(row.name, FIRST_TO_CHOOSE, mixture, others.digest(name))
                found.add(key, Scores(0.5, 0.1 if mixture == liked else 1.0, 0.1, 0.0))
    return found


def test_a_held_set_takes_no_part_in_the_choice(records):
    assert CHOOSING not in others.HELD
    assert HELD in others.HELD
    losses = OtherMeasurement(SETS, records).losses()
    assert min(losses, key=losses.__getitem__) == LIKED
    assert losses[LIKED_BY_HELD] == 1.0


def test_what_was_chosen_is_judged_on_other_splits_beside_what_needs_no_choice(records):
    found = OtherMeasurement(SETS, records).judged(LIKED)
    for row in (f"{HELD}:8", f"{CHOOSING}:16/2"):
        assert set(found[row]) == {PRIOR, *SINGLE, AS_IS, LIKED}
        assert set(found[row][LIKED]) == {0}
        assert found[row][LIKED][0].accuracy > found[row][PRIOR][0].accuracy


def test_the_runner_itself_adapts_to_the_splits_that_judge(records):
    sets = OtherSets((HELD,), judging=1, choosing=1, running=1)
    measurement = OtherMeasurement(sets, records)
    nameless = next(name for name, mixture in MIXTURES.items() if mixture == NAMELESS)
    judged, run = measurement.judged(nameless), measurement.run()
    row = f"{HELD}:8"
    assert set(run[row]) == set(RUNS)
    closed, auto = judged[row][nameless][0], run[row][AUTO][0]
    assert auto.accuracy == pytest.approx(closed.accuracy, abs=0.02)
    assert auto.log_loss == pytest.approx(closed.log_loss, abs=0.02)


def test_features_are_of_a_network_that_has_learned_and_are_kept(tmp_path):
    rows = OtherFeatures().of(others.load(CHOOSING)).rows
    assert rows.shape == (120, 32 + others.table(CHOOSING).width)
    kept = next(iter(tmp_path.glob("wine-*.pt")))
    torch.save(rows + 1, kept)
    assert torch.equal(OtherFeatures().of(others.load(CHOOSING)).rows, rows + 1)


def scores(*accuracies, log_loss=0.5):
    return {at: Scores(each, log_loss, 0.05, 0.0) for at, each in enumerate(accuracies)}


def row_of(*own, log_loss=0.5):
    good = scores(0.8, 0.82, 0.81)
    single = dict.fromkeys(SINGLE, good)
    return {PRIOR: scores(0.5, 0.5, 0.5), **single, AS_IS: scores(*own, log_loss=log_loss)}


def test_a_row_is_below_by_more_than_chance_makes_of_it():
    assert is_below(row_of(0.78, 0.8, 0.79), AS_IS)
    assert not is_below(row_of(0.79, 0.81, 0.8), AS_IS)
    assert not is_below(row_of(0.9, 0.7, 0.76), AS_IS)


@pytest.mark.parametrize(
    ("own", "loss", "missed"), [((0.9, 0.9, 0.9), 0.4, 0), ((0.7, 0.7, 0.7), 0.6, 3)]
)
def test_goals_are_judged_on_held_sets_alone(own, loss, missed):
    found = {row.name: row_of(*own, log_loss=loss) for row in rows_of(HELD)}
    found |= {row.name: row_of(0.1, 0.1, 0.1) for row in rows_of(CHOOSING)}
    goals = goals_of(SETS, found, AS_IS)
    assert len(goals) == 4
    assert sum(verdict.endswith("MISSED") for verdict in goals.values()) == missed
