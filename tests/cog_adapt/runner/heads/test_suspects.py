"""Rows whose labels look wrong are named, with the label that may be meant."""

import torch

from cog_adapt.runner.heads.calibration import NO_WRONG_LABELS, wrong_label_share
from cog_adapt.runner.heads.suspects import Suspect, suspects_of, warnings_of_suspects

LABELS = ("delivery", "refund")


def answers(count, wrong):
    """Logits that are sure of the right class, and targets of which some are the other class."""
    right = torch.arange(count) % 2
    targets = torch.where(torch.isin(torch.arange(count), torch.tensor(wrong)), 1 - right, right)
    return torch.nn.functional.one_hot(right, 2) * 6.0, targets


def share(logits, targets):
    return wrong_label_share(logits, targets, torch.ones(len(targets), dtype=torch.float64))


def test_the_rows_that_were_labelled_wrongly_are_named():
    logits, targets = answers(40, [3, 10, 21, 30])
    found = suspects_of(logits, targets, labels=LABELS, wrong_share=share(logits, targets))
    assert [each.row for each in found] == [4, 11, 22, 31]
    assert found[:2] == (Suspect(4, "delivery", "refund"), Suspect(11, "refund", "delivery"))


def test_rows_that_may_all_be_right_have_no_suspects():
    logits, targets = answers(40, [])
    none = share(logits, targets)
    assert suspects_of(logits, targets, labels=LABELS, wrong_share=none) == ()
    logits, targets = answers(40, [3])
    assert suspects_of(logits, targets, labels=LABELS, wrong_share=NO_WRONG_LABELS) == ()


def test_ten_are_named_at_most_and_the_most_doubtful_first():
    logits, targets = answers(100, [*range(15)])
    logits[5] *= 2
    found = suspects_of(logits, targets, labels=LABELS, wrong_share=share(logits, targets))
    assert (len(found), found[0].row) == (10, 6)


def test_the_warning_is_a_sentence():
    rows = [Suspect(4, "delivery", "refund")._asdict(), Suspect(9, "a", "b")._asdict()]
    assert warnings_of_suspects({"decision": {"suspects": rows}}) == (
        "labels look wrong by answers that have not seen their rows: 'delivery' in row 4 may be "
        "meant as 'refund', 'a' in row 9 may be meant as 'b'",
    )
    assert warnings_of_suspects({"decision": None}) == warnings_of_suspects({}) == ()
