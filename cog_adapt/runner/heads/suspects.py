"""Names the examples whose labels look wrong, by answers that have not seen them."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cog_adapt.runner.heads.calibration import WrongLabelShare, may_be_wrong

_MOST = 10
_LEAST_DOUBT = 0.5  # probability that a label was drawn by chance


class Suspect(NamedTuple):
    """An example whose label looks wrong.

    Attributes:
        row: its number, 1 for the first.
        label: the example's.
        suggested: the likeliest label.
    """

    row: int
    label: str
    suggested: str


def suspects_of(
    logits: Tensor, targets: Tensor, labels: Sequence[str], wrong_share: WrongLabelShare
) -> tuple[Suspect, ...]:
    """Return the most doubtful examples, at most ten, the most doubtful first.

    Args:
        logits: calibrated, by a head that has not seen the examples, (N, K).
        targets: class numbers, (N,).
        labels: the names of the classes.
        wrong_share: the share of wrong labels; none if all labels may be right.
    """
    if wrong_share.is_open:
        return ()
    likely = logits.double().softmax(1)
    best = likely.argmax(1)
    wrong = wrong_share.wrong * may_be_wrong(targets)
    chance = wrong / likely.shape[1]
    right = (1 - wrong) * likely.gather(1, targets[:, None])[:, 0]
    doubt = torch.where(best == targets, 0.0, chance / (chance + right))
    order = doubt.argsort(descending=True, stable=True)[:_MOST]
    return tuple(
        Suspect(place + 1, labels[int(targets[place])], labels[int(best[place])])
        for place in order.tolist()
        if doubt[place] > _LEAST_DOUBT
    )


def warnings_of_suspects(report: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a sentence on the suspects of a report's decision, if it has any."""
    found = (report.get("decision") or {}).get("suspects", ())
    if not found:
        return ()
    said = (
        f"{each['label']!r} in row {each['row']} may be meant as {each['suggested']!r}"
        for each in found
    )
    return (f"labels look wrong by answers that have not seen their rows: {', '.join(said)}",)
