"""Steps 4 and 5: checks that the base serves, and that a replica serves as its base does."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from gradient_check.checks.flow import GradientFlow
from gradient_check.checks.kept_inferences import evaluated_under_watch
from gradient_check.checks.later_inferences import LaterInferences
from gradient_check.checks.noise_scales import shape_noise
from gradient_check.checks.serving_differences import ServingDifferences
from gradient_check.diagnosis.copies import Copies
from gradient_check.findings.examination import Examination, Numbers, attempted, describe
from gradient_check.findings.report import some
from gradient_check.instruments.differences import Limits
from gradient_check.instruments.draws import RecordedDraws, judge_noise
from gradient_check.instruments.graph import reached_leaves
from gradient_check.instruments.guard import Guard
from gradient_check.instruments.subject import Subject
from gradient_check.phases.census import NO_SUMS, Census, count_hooks

_SAME = 1e-4  # relative: kernels chosen by grad mode or thread may differ in their last bits
_SAME_16_BIT = 5e-2


class Operation:
    """The checks of serving, which run before and after those of the gradients."""

    def __init__(
        self, subject: Subject, guard: Guard, exam: Examination, limits: Limits, flow: GradientFlow
    ) -> None:
        self.subject = subject
        self.guard = guard
        self.exam = exam
        self.flow = flow
        self.limits = limits
        self.same = _SAME if limits.noise < _SAME else _SAME_16_BIT
        self.census = _census_of(self.subject.base, self.guard)
        self.early_changes: list[str] = []
        self.served: Tensor | None = None
        self.draws: RecordedDraws | None = None

    def serve_first(self) -> Numbers:
        """Run inference first, as in production, so that it fills whatever caches there are."""
        subject, exam = self.subject, self.exam
        try:
            self.served = subject.serve(subject.base, subject.seed)
            self._note_hooks()
            again = subject.serve(subject.base, subject.seed)
            unseeded = subject.serve(subject.base, row_seed=subject.seed + 1)
        except Exception as error:  # noqa: BLE001 - the code under test may raise anything
            place = self.flow.diagnosis.forward.raised(error)
            exam.add(
                "FAIL" if place.module else "WARN",
                "serve",
                f"inference under {subject.options.serve_mode} raised {describe(error)}.",
                module=place.module,
                line=place.line,
            )
            return {}
        if not close(self.served, again, self.same):
            exam.add("WARN", "nondeterministic", "two inferences with the same seed differ.")
        elif not close(self.served, unseeded, self.same):
            self.draws = judge_noise(subject, exam)
        if not exam.has("nondeterministic"):
            exam.grounds.add("served")
        return {}

    def _note_hooks(self) -> None:
        """Warn of hooks that the first inference has set; later ones count as changes."""
        before = {name: part.hooks for name, part in self.census.modules.items()}
        now = count_hooks(self.subject.base)
        added = [name or "(root)" for name, hooks in now.items() if hooks > before[name]]
        if added:
            self.census = Census.of(self.subject.base)
            self.exam.add(
                "WARN",
                "late-hooks",
                f"the first inference set hooks on {some(added)}. Set them where the module is "
                "built, once: a process that serves takes a later one for damage to its base.",
            )

    def compare_replica(self) -> Numbers:
        """Check that the replica, still at the base's values, answers as the base does."""
        subject = self.subject
        assert self.served is not None
        answer = subject.serve(subject.replica, subject.seed, "no_grad")
        if not close(self.served, answer, self.same):
            self.exam.add(
                "FAIL",
                "replica",
                f"a replica answers differently from the base: {apart(self.served, answer)}. Its "
                "structure was not copied whole; keep state in parameters, buffers or plain "
                "attributes.",
            )
        return {}

    def perturb(self) -> Numbers:
        """Move the replica off the base's values: zeros among them (LoRA's B) would hide faults."""
        self._lend_weights()
        self.subject.perturb(self.subject.names)
        self.subject.keep_buffers()
        return {}

    def _lend_weights(self) -> None:
        """Let a large base lie in the module's memory, if the first inferences wrote to nothing."""
        subject = self.subject
        if subject.weights is None:
            return
        self.early_changes = self.changes()
        if self.early_changes:
            subject.weights.copy()
        else:
            subject.weights.lend()
        self.census = _census_of(self.subject.base, self.guard)

    def changes_at_end(self) -> list[str]:
        """Return all changes to the base; what lies in the caller's memory is read once."""
        theirs = self.guard.tensors
        own = dict(self.subject.base.named_parameters(remove_duplicate=False))
        own = {name: p for name, p in own.items() if name in theirs}  # a forward may add others
        lent = [n for n, p in own.items() if p.numel() and p.data_ptr() == theirs[n].data_ptr()]
        known = self.guard.bits_at_end() if lent else {}
        return self.changes({name: known[name] for name in lent})

    def changes(self, known: Mapping[str, int] = NO_SUMS) -> list[str]:
        """Return how the base differs from the census, a phrase each; `known` as for a census."""
        changes = self.census.changes(self.subject.base, known)
        return self.early_changes + [c for c in changes if not c.startswith("process flag")]

    def compare_serving(self) -> Numbers:
        """Check that inference and an eval forward with gradients compute the same."""
        subject = self.subject
        subject.put_back_buffers()
        later = LaterInferences(self.flow, subject.adapted())
        served = subject.serve(later.served, subject.seed)
        subject.put_back_buffers()
        reached: dict[int, Tensor] = {}
        subject.loss.observer = lambda losses: reached.update(reached_leaves(losses))
        try:
            watched = attempted(lambda: evaluated_under_watch(self.flow), None)
            evaluated = subject.evaluate() if watched is None else watched
        finally:
            subject.loss.observer = None
        if not close(evaluated, served, 10 * self.same, self.flow.scale):
            found = ServingDifferences(self.flow)
            fresh = attempted(found.fresh_losses, evaluated)
            if close(fresh, served, 10 * self.same, self.flow.scale):
                found.report_kept(apart(evaluated, fresh))
            else:
                found.report_other_way(apart(evaluated, served))
            return {}
        if later.can_be_asked:
            _judge_later(self, later)
        trained = [n for n, norm in self.flow.gradient_norms.items() if norm > 0]
        own = subject.parameters
        self._judge_ignored([n for n in trained if id(own[n]) not in reached], evaluated, trained)
        return {}

    def _judge_ignored(self, names: list[str], losses: Tensor, trained: list[str]) -> None:
        """Report trained parameters that an eval forward does without."""
        if not names:
            return
        subject = self.subject
        with subject.moved(names, 0.5):
            subject.put_back_buffers()
            if not close(losses, subject.evaluate(), self.same):
                return
        copy, place = Copies(self.flow.diagnosis).kept(names, training=False)
        is_certain = bool(copy) or len(names) == len(trained)
        if not is_certain and shape_noise(self.flow, names):
            self.exam.add(
                "NOTE",
                "serve-differs",
                f"inference does without {some(names)}, which shape the noise that training draws.",
                parameters=names,
            )
            return
        self.exam.add(
            "FAIL" if is_certain else "WARN",
            "serve-differs",
            f"inference does not use {len(names)} of {len(trained)} trained parameters: "
            f"{some(names)}.{copy} Right for an auxiliary head only.",
            parameters=names,
            module=place.module or self.flow.diagnosis.forward.owner(names),
            line=place.line,
        )


def _judge_later(operation: Operation, later: LaterInferences) -> None:
    """Report an inference that does not see weights which changed after an earlier one."""
    losses = attempted(later.losses, None)
    same, scale = 10 * operation.same, operation.flow.scale
    if losses is not None and not close(*losses, same, scale):
        later.report(apart(*losses))


def _census_of(base: nn.Module, guard: Guard) -> Census:
    """Take the base's census; its parameters have the bits of the caller's."""
    own = dict(base.named_parameters(remove_duplicate=False))
    return Census.of(base, {name: bits for name, bits in guard.bits.items() if name in own})


def close(one: Tensor, other: Tensor, tolerance: float, scale: float = 0.0) -> bool:
    """Return whether losses agree within `tolerance` of the largest, or of their known scale."""
    if one.shape != other.shape:
        return False
    sizes = one.abs().nan_to_num(0.0, 0.0, 0.0)
    largest = max(scale, float(sizes.max()) if one.numel() else 0.0)
    return torch.allclose(
        one, other, rtol=0.0, atol=tolerance * max(largest, 1e-12), equal_nan=True
    )


def apart(one: Tensor, other: Tensor) -> str:
    """Return the means of two losses as a phrase for a message."""
    return f"losses {one.mean().item():.6g} and {other.mean().item():.6g}"
