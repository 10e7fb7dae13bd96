"""Steps 13 and 14: checks that no graph stays in memory, and that nothing else has changed."""

import gc
import weakref
from collections.abc import Iterator

from torch import Tensor, nn

from gradient_check.checks.kept_graphs import is_torchs_own, keeper_of, keeping_of
from gradient_check.checks.operation import Operation, apart, close
from gradient_check.diagnosis.base_writes import place_of_write
from gradient_check.findings.examination import Numbers, attempted
from gradient_check.findings.report import NOWHERE, Place, some
from gradient_check.instruments.graph import leaf_of, nodes

_WRITTEN = (
    "A module must write to nothing but its own non-persistent buffers. A part that training "
    "updates in its forward (a momentum encoder) has a copy of its own if it is selected too: "
    "`trainable`, with `unused`."
)
_RESCALED = (
    "`max_norm` rescales weights in every forward, also while the base answers: leave it out, and "
    "rescale them where they are made and after a step."
)


class LastingEffects:
    """Judges the lasting effects of serving and training."""

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        self.subject = operation.subject
        self.exam = operation.exam
        self.diagnosis = operation.flow.diagnosis

    def judge_release(self) -> Numbers:
        """Check that a forward's graph is freed after it."""
        marks = self._marked_forward()
        if any(reference() is not None for _, reference in marks):
            gc.collect()
        alive = [name for name, reference in marks if reference() is not None]
        place = keeping_of(self.operation.flow) if alive else NOWHERE
        if place.line:
            self.exam.add(
                "FAIL",
                "stale-forward",
                f"a forward computes with what an earlier one kept, with its graph ({some(alive)}"
                "): backward would go through freed or overwritten values. Keep it `.detach()`ed.",
                module=place.module,
                line=place.line,
            )
        keeper = keeper_of(self.subject.replica) if alive else None
        if keeper and is_torchs_own(keeper, self.subject.replica):
            return {"kept nodes": len(alive)}
        if alive and not place.line:
            self.exam.add(
                "WARN",
                "leak",
                f"{len(alive)} nodes of a forward's graph ({some(alive)}) stay in memory after it"
                + (f", kept by {keeper}" if keeper else "")
                + ". Keep `.detach()`ed values or plain numbers.",
                module=keeper,
            )
        return {"kept nodes": len(alive)}

    def _marked_forward(self) -> list[tuple[str, "weakref.ref[_Mark]"]]:
        """Run a forward; return its graph's node names, and a mark on each that dies with it."""
        marks: list[tuple[str, weakref.ref[_Mark]]] = []

        def mark(losses: Tensor) -> None:
            for node in nodes(losses.grad_fn):
                if leaf_of(node) is None:
                    node.metadata["gradient self-test"] = found = _Mark()
                    marks.append((node.name(), weakref.ref(found)))

        self.subject.loss.observer = mark
        try:
            self.subject.forward()
        finally:
            self.subject.loss.observer = None
        return marks

    def judge_base(self) -> Numbers:
        """Check that the base serves as before, and that base, caller and process are unchanged."""
        self._judge_answer()
        self._judge_writes()
        self._judge_flags()
        return {}

    def _judge_answer(self) -> None:
        served = self.operation.served
        if served is None or "served" not in self.exam.grounds:
            return
        answer = self.subject.serve(self.subject.base, self.subject.seed)
        if not close(served, answer, self.operation.same):
            self.exam.add(
                "FAIL",
                "base-changed",
                "the base answers differently after training a replica: "
                f"{apart(served, answer)}. Something is shared that must not be.",
            )

    def _judge_writes(self) -> None:
        changes = self.operation.changes_at_end()
        changes += self.operation.guard.module_changes()
        if not changes:
            return
        written = [c for c in changes if "version" not in c]
        rescaling = self._rescaling(changes)
        names = {change.removeprefix("tensor ").split(" ")[0] for change in written or changes}
        own = [name for name in _names_of(self.subject.base) if name in names]
        place = rescaling or attempted(lambda: place_of_write(self.diagnosis.forward, own), NOWHERE)
        self.exam.add(
            "FAIL",
            "base-changed",
            f"forwards changed the base: {'; '.join((written or changes)[:3])}. "
            f"{_RESCALED if rescaling else _WRITTEN}",
            module=place.module,
            line=place.line,
        )

    def _rescaling(self, changes: list[str]) -> Place | None:
        """Return the embedding that rescaled its weight; None where anything else has changed."""
        written = {change.removeprefix("tensor ").split(" ")[0] for change in changes}
        parts = self.subject.base.named_modules()
        own = {f"{n}.weight".lstrip("."): p for n, p in parts if getattr(p, "max_norm", None)}
        if not written <= own.keys():
            return None
        name = min(written)
        path = name.removesuffix("weight").rstrip(".") or "(root)"
        return Place(f"{path} ({type(own[name]).__name__})", f"max_norm={own[name].max_norm}")

    def _judge_flags(self) -> None:
        flags = self.operation.guard.process_changes()
        if not flags:
            return
        place = self.diagnosis.forward.tampering("flags")
        self.exam.add(
            "FAIL",
            "flags-changed",
            f"process flags changed: {'; '.join(flags)}. Set them once, outside the model.",
            module=place.module,
            line=place.line,
        )


def _names_of(module: nn.Module) -> Iterator[str]:
    """Yield the names of a module's parameters and buffers."""
    yield from (name for name, _ in module.named_parameters(remove_duplicate=False))
    yield from (name for name, _ in module.named_buffers(remove_duplicate=False))


class _Mark:
    """A mark on a graph's node; it lives as long as the node."""
