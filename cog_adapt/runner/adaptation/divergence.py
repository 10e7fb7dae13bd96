"""Sentences on losses that have grown instead of fallen, for a report's warnings."""

from collections.abc import Mapping
from typing import Any

from gradient_check.phases.loss_growth import worst_rise


def warnings_of(report: Mapping[str, Any]) -> tuple[str, ...]:
    """Return sentences on the losses of a report (`AdaptationReport.to_json`).

    There is one on steps that were taken back, and one on losses that grew far above the first.
    """
    rate, taken_back = report.get("learning_rate", 0.0), report.get("taken_back", ())
    said = [_of_taken_back(taken_back, rate)] if taken_back else []
    losses = report.get("losses", ())
    rise = worst_rise(losses)
    if rise is not None:
        step, worst = rise
        said.append(
            f"the loss rose from {losses[0]:.3g} to {worst:.3g} in step {step}: steps of a "
            f"learning rate of {rate:.2g} are too long for this model. Send a lower "
            f"`learning_rate`, {rate / 10:.1g} say"
        )
    return tuple(said)


def _of_taken_back(taken_back: list[dict[str, Any]], rate: float) -> str:
    first = taken_back[0]
    loss = "no finite number" if first["loss"] is None else f"{first['loss']:.3g}"
    return (
        f"the automatic learning rate {first['learning_rate']:.2g} made the loss rise from "
        f"{first['first_loss']:.3g} to {loss} in step {first['step']}: the steps were taken again "
        f"from the start, at {rate:.2g}. Send `learning_rate` to choose it"
    )
