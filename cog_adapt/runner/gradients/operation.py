"""Steps 4, 5, 13 and 14: serving, the replica, and that nothing stays behind."""

import gc
import weakref

import torch
from torch import Tensor, nn

from cog_adapt.runner.census import Census
from cog_adapt.runner.gradients.copies import Copies
from cog_adapt.runner.gradients.differences import Limits
from cog_adapt.runner.gradients.examination import Examination, Numbers, describe
from cog_adapt.runner.gradients.flow import GradientFlow
from cog_adapt.runner.gradients.graph import leaf_of, nodes, reached_leaves
from cog_adapt.runner.gradients.guard import Guard
from cog_adapt.runner.gradients.report import some
from cog_adapt.runner.gradients.subject import Subject

_SAME = 1e-4  # relative: kernels chosen by grad mode or thread may differ in their last bits
_SAME_16_BIT = 5e-2


class Operation:
    """The self-test of everything round the gradients."""

    def __init__(
        self, subject: Subject, guard: Guard, exam: Examination, limits: Limits, flow: GradientFlow
    ) -> None:
        self.subject = subject
        self.guard = guard
        self.exam = exam
        self.flow = flow
        self.limits = limits
        self.same = _SAME if limits.noise < _SAME else _SAME_16_BIT
        self.census = Census.of(subject.base)
        self.served: Tensor | None = None

    def serve_first(self) -> Numbers:
        """Inference comes first, as in production: it fills whatever caches there are."""
        subject, exam = self.subject, self.exam
        try:
            self.served = subject.serve(subject.base, subject.seed)
            again = subject.serve(subject.base, subject.seed)
            unseeded = subject.serve(subject.base)
        except Exception as error:  # noqa: BLE001 - the code under test may raise anything
            place = self.flow.diagnosis.raised(error)
            note = exam.fail if place.module else exam.warn
            note(
                "serve",
                f"inference under {subject.options.serve_mode} raised {describe(error)}.",
                module=place.module,
                line=place.line,
            )
            return {}
        if not close(self.served, again, self.same):
            exam.warn("nondeterministic", "two inferences with the same seed differ.")
        elif not close(self.served, unseeded, self.same):
            exam.warn(
                "random-inference",
                "inference depends on the random seed. Give dropout its module's `training` flag, "
                "and sampling a generator of its own.",
            )
        if not exam.has("nondeterministic", "random-inference"):
            exam.grounds.add("served")
        return {}

    def compare_replica(self) -> Numbers:
        """The replica, still at the base's values, answers as the base does."""
        subject = self.subject
        assert self.served is not None
        answer = subject.serve(subject.replica, subject.seed, "no_grad")
        if not close(self.served, answer, self.same):
            self.exam.fail(
                "replica",
                f"a replica answers differently from the base: {apart(self.served, answer)}. Its "
                "structure was not copied whole; keep state in parameters, buffers or plain "
                "attributes.",
            )
        return {}

    def perturb(self) -> Numbers:
        """Move the replica off the base: what is zero there (LoRA's B) would hide faults."""
        self.subject.perturb(self.subject.names)
        self.subject.keep_buffers()
        return {}

    def compare_serving(self) -> Numbers:
        """Inference and an eval forward with gradients must compute the same."""
        subject = self.subject
        subject.put_back_buffers()
        served = subject.serve_adapted()
        subject.put_back_buffers()
        reached: dict[int, Tensor] = {}
        subject.loss.observer = lambda losses: reached.update(reached_leaves(losses))
        try:
            evaluated = subject.evaluate()
        finally:
            subject.loss.observer = None
        if not close(evaluated, served, 10 * self.same):
            self.exam.fail(
                "serve-differs",
                f"inference and an eval forward with gradients differ: {apart(evaluated, served)}"
                ". A fast path or a cache answers inference and leaves out what is trained.",
            )
            return {}
        trained = [n for n, norm in self.flow.gradient_norms.items() if norm > 0]
        own = subject.parameters
        self._judge_ignored([n for n in trained if id(own[n]) not in reached], evaluated, trained)
        return {}

    def _judge_ignored(self, names: list[str], losses: Tensor, trained: list[str]) -> None:
        """Trained parameters that an eval forward does without."""
        if not names:
            return
        subject = self.subject
        with subject.moved(names, 0.5):
            subject.put_back_buffers()
            if not close(losses, subject.evaluate(), self.same):
                return
        copy, place = Copies(self.flow.diagnosis).kept(names, training=False)
        is_certain = bool(copy) or len(names) == len(trained)
        (self.exam.fail if is_certain else self.exam.warn)(
            "serve-differs",
            f"inference does not use {len(names)} of {len(trained)} trained parameters: "
            f"{some(names)}.{copy} Right for an auxiliary head only.",
            names,
            place.module or self.flow.diagnosis.owner(names),
            place.line,
        )

    def release(self) -> Numbers:
        """After a forward its graph is gone."""
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

    def compare_base(self) -> Numbers:
        """The base serves as at first, and nothing about it, the caller or the process changed."""
        subject, exam = self.subject, self.exam
        if self.served is not None and "served" in exam.grounds:
            answer = subject.serve(subject.base, subject.seed)
            if not close(self.served, answer, self.same):
                exam.fail(
                    "base-changed",
                    "the base answers differently after training a replica: "
                    f"{apart(self.served, answer)}. Something is shared that must not be.",
                )
        changes = self.census.changes(subject.base)
        changes = [c for c in changes if not c.startswith("process flag")]
        changes += self.guard.module_changes()
        written = [c for c in changes if "version" not in c]
        if written or changes:
            place = self.flow.diagnosis.writes_weights()
            exam.fail(
                "base-changed",
                f"forwards changed the base: {'; '.join((written or changes)[:3])}. A module "
                "must write to nothing but its own non-persistent buffers.",
                module=place.module,
                line=place.line,
            )
        flags = self.guard.process_changes()
        if flags:
            place = self.flow.diagnosis.tampering("flags")
            exam.fail(
                "flags-changed",
                f"process flags changed: {'; '.join(flags)}. Set them once, outside the model.",
                module=place.module,
                line=place.line,
            )
        return {}


class _Mark:
    """Lives as long as the node of a graph that it was put on."""


def keeper_of(replica: nn.Module) -> str | None:
    """The attribute that holds a tensor with its graph, if one does."""
    for name, part in replica.named_modules():
        for attribute, value in vars(part).items():
            values = value if isinstance(value, list | tuple) else [value]
            values = list(value.values()) if isinstance(value, dict) else values
            if any(isinstance(v, Tensor) and v.grad_fn is not None for v in values):
                return f"{name or '(root)'}.{attribute}"
    return None


def close(one: Tensor, other: Tensor, tolerance: float) -> bool:
    """Whether losses agree within `tolerance` of the largest."""
    if one.shape != other.shape:
        return False
    sizes = one.abs().nan_to_num(0.0, 0.0, 0.0)
    largest = float(sizes.max()) if one.numel() else 0.0
    return torch.allclose(
        one, other, rtol=0.0, atol=tolerance * max(largest, 1e-12), equal_nan=True
    )


def apart(one: Tensor, other: Tensor) -> str:
    """Two means, to be read."""
    return f"losses {one.mean().item():.6g} and {other.mean().item():.6g}"
