"""Steps 13 and 14: checks that no graph stays in memory, and that nothing else has changed."""

import gc
import weakref

from torch import Tensor, nn

from cog_adapt.runner.gradients.examination import Numbers
from cog_adapt.runner.gradients.graph import leaf_of, nodes
from cog_adapt.runner.gradients.operation import Operation, apart, close
from cog_adapt.runner.gradients.report import some


class Traces:
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
        if alive:
            keeper = keeper_of(self.subject.replica)
            self.exam.warn(
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
            self.exam.fail(
                "base-changed",
                "the base answers differently after training a replica: "
                f"{apart(served, answer)}. Something is shared that must not be.",
            )

    def _judge_writes(self) -> None:
        changes = self.operation.census.changes(self.subject.base)
        changes = [c for c in changes if not c.startswith("process flag")]
        changes += self.operation.guard.module_changes()
        if not changes:
            return
        written = [c for c in changes if "version" not in c]
        place = self.diagnosis.forward.writes_weights()
        self.exam.fail(
            "base-changed",
            f"forwards changed the base: {'; '.join((written or changes)[:3])}. A module "
            "must write to nothing but its own non-persistent buffers.",
            module=place.module,
            line=place.line,
        )

    def _judge_flags(self) -> None:
        flags = self.operation.guard.process_changes()
        if not flags:
            return
        place = self.diagnosis.forward.tampering("flags")
        self.exam.fail(
            "flags-changed",
            f"process flags changed: {'; '.join(flags)}. Set them once, outside the model.",
            module=place.module,
            line=place.line,
        )


class _Mark:
    """A mark on a graph's node; it lives as long as the node."""


def keeper_of(replica: nn.Module) -> str | None:
    """Return the attribute that holds a tensor with its graph, or None."""
    for name, part in replica.named_modules():
        attribute = next((a for a, value in vars(part).items() if _holds_graph(value)), None)
        if attribute is not None:
            return f"{name or '(root)'}.{attribute}"
    return None


def _holds_graph(value: object) -> bool:
    values = value if isinstance(value, list | tuple) else [value]
    values = list(value.values()) if isinstance(value, dict) else values
    return any(isinstance(v, Tensor) and v.grad_fn is not None for v in values)
