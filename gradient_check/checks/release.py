"""Step 13: checks that no graph stays in memory."""

import gc
import weakref

from torch import Tensor

from gradient_check.checks.flow import GradientFlow
from gradient_check.checks.kept_graphs import is_torchs_own, keeper_of, keeping_of
from gradient_check.findings.examination import Numbers
from gradient_check.findings.report import NOWHERE, some
from gradient_check.instruments.graph import leaf_of, nodes
from gradient_check.instruments.subject import Subject


class _Mark:
    """A mark on a graph's node; it lives as long as the node."""


def judge_release(flow: GradientFlow) -> Numbers:
    """Check that a forward's graph is freed after it."""
    marks = _marked_forward(flow.subject)
    if any(reference() is not None for _, reference in marks):
        gc.collect()
    alive = [name for name, reference in marks if reference() is not None]
    place = keeping_of(flow) if alive else NOWHERE
    if place.line:
        flow.exam.add(
            "FAIL",
            "stale-forward",
            "a forward computes with a value that an earlier forward stored with its graph "
            f"({some(alive)}): backward would go through freed or overwritten values. Store the "
            "value `.detach()`ed.",
            module=place.module,
            line=place.line,
        )
    keeper = keeper_of(flow.subject.replica) if alive else None
    if keeper and is_torchs_own(keeper, flow.subject.replica):
        return {"kept nodes": len(alive)}
    if alive and not place.line:
        flow.exam.add(
            "WARN",
            "leak",
            f"{len(alive)} nodes of a forward's graph ({some(alive)}) stay in memory after it"
            + (f", kept by {keeper}" if keeper else "")
            + ". Store `.detach()`ed values or plain numbers.",
            module=keeper,
        )
    return {"kept nodes": len(alive)}


def _marked_forward(subject: Subject) -> list[tuple[str, weakref.ref[_Mark]]]:
    """Run a forward; return its graph's node names, and a mark on each that dies with it."""
    marks: list[tuple[str, weakref.ref[_Mark]]] = []

    def mark(losses: Tensor) -> None:
        for node in nodes(losses.grad_fn):
            if leaf_of(node) is None:
                node.metadata["gradient self-test"] = found = _Mark()
                marks.append((node.name(), weakref.ref(found)))

    subject.loss.observer = mark
    try:
        subject.forward()
    finally:
        subject.loss.observer = None
    return marks
