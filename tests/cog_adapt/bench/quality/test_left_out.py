"""What is chosen for a group of sets is chosen on other groups, and judged on other splits."""

import pytest
import torch

pytest.importorskip("task", reason="the shipped task is not here")

from bench.quality.cases import FIRST_TO_CHOOSE, rows_of
from bench.quality.closed_forms import MIXTURES
from bench.quality.features import FeatureStore, SetFeatures
from bench.quality.left_out import CHOSEN, Measurement, Sets
from bench.quality.records import Key, Records
from bench.quality.scores import Scores
from bench.sets import unseen

TONE, MAIL = "urgency", "phishing"  # of two groups
LIKED_BY_TONE, LIKED_BY_MAIL = list(MIXTURES)[1:3]
SETS = Sets((TONE, MAIL), judging=1, choosing=1)


@pytest.fixture(autouse=True)
def drawn_features(monkeypatch):
    def drawn(store, texts):
        every = [text for each in texts.texts.values() for text in each]
        chance = torch.Generator().manual_seed(0)
        rows = torch.randn(len(every), 8, generator=chance)
        names = torch.randn(len(texts.labels), 8, generator=chance)
        return SetFeatures({text: at for at, text in enumerate(every)}, rows, names)

    monkeypatch.setattr(FeatureStore, "of", drawn)


@pytest.fixture
def records(tmp_path):
    """Each group has a mixture of its own that is best there, on the splits that choose."""
    found = Records(tmp_path / "records.jsonl")
    for row in rows_of(SETS.names):
        liked = LIKED_BY_TONE if row.set_name == TONE else LIKED_BY_MAIL
        digest = unseen.load(row.set_name).digest
        for name in MIXTURES:
            loss = 0.1 if name == liked else 1.0
            key = Key(row.name, FIRST_TO_CHOOSE, name, digest)
            found.add(key, Scores(0.5, loss, 0.1, 0.0))
    return found


def test_a_group_takes_no_part_in_what_is_chosen_for_it(records):
    assert Measurement(SETS, records).choices() == {"mail": LIKED_BY_TONE, "tone": LIKED_BY_MAIL}


def test_what_was_chosen_is_judged_on_other_splits(records):
    measurement = Measurement(SETS, records)
    found = measurement.judged(measurement.choices())
    scores = found[f"{MAIL}:8"][CHOSEN]
    assert set(scores) == {0}
    digest = unseen.load(MAIL).digest
    assert scores[0] == records[Key(f"{MAIL}:8", 0, LIKED_BY_TONE, digest)]
    assert Key(f"{MAIL}:8", 0, LIKED_BY_MAIL, digest) not in records
