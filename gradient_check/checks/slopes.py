"""Step 10: checks by central differences that the gradients are the slopes of the loss."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from torch import Tensor, nn

from gradient_check.checks.block_groups import grouped
from gradient_check.checks.flow import GradientFlow
from gradient_check.checks.kept_graphs import report_later_backward
from gradient_check.checks.reversed_gradients import judge_factors
from gradient_check.checks.rounding import find_coarse
from gradient_check.checks.wrong_gradients import WrongGradients
from gradient_check.findings.examination import Examination, Numbers
from gradient_check.findings.report import count, some
from gradient_check.instruments import differences
from gradient_check.instruments.differences import Limits, Verdict
from gradient_check.instruments.directions import DirectionKind
from gradient_check.instruments.noise import real
from gradient_check.instruments.padding import drop_padding

_POINTS = 2
_LARGEST_FIRST = (2, 0, 1)  # small moves of very many weights are mostly rounded off, and unseen
_FAR = 0.5  # of the weights' spread
_ROUNDING = 1e-6  # of numbers around 1, in float32


class GradientSlopes:
    """Judges the gradients that a flow has taken."""

    def __init__(self, flow: GradientFlow) -> None:
        self.flow = flow
        self.subject = flow.subject
        self.exam = flow.exam
        self.limits = flow.limits
        self.diagnosis = flow.diagnosis
        self.verdicts: dict[str, Verdict] = {}
        self.shares: dict[str, dict[str, float]] = {}
        self.wholes: dict[str, list[str]] = {}
        self.groups: dict[str, list[str]] = {}
        self.by_scale = True  # whether to move along the values too
        self.while_held: Callable[[list[str]], None] = lambda names: None

    def judge_whole(self) -> Numbers:
        """Compare central differences along the gradient of all parameters together.

        In a large module, of each portion whose gradients are kept at a time.
        """
        find_coarse(self.flow)
        try:
            judge_factors(self.flow)
            self._compare_portions(self.subject.held_first())
        except RuntimeError as error:  # of the backward that a further portion needs
            report_later_backward(self.flow, error)
            self.exam.grounds.discard("gradients")
            return {}
        return {"error": max(self.verdicts[name].error for name in self.wholes)}

    def _compare_portions(self, portions: list[list[str]]) -> None:
        for number, names in enumerate(portions, 1):
            name = "(all)" if len(portions) == 1 else f"(all, {number} of {len(portions)})"
            self.wholes[name] = names
            self.verdicts[name] = self._compare_whole(names)
            self._group()
            if self.subject.is_large:  # while the portion's gradients are there
                self._compare_blocks(names)
                self.while_held(names)

    def _compare_whole(self, names: list[str]) -> Verdict:
        """Compare along the gradient, then along the values.

        In a large module along the values alone, if its blocks are compared along the gradient as
        exactly: that takes a second. How the loss bends along the values proves nothing.
        """
        if self.subject.is_large and self.limits.block <= self.limits.whole:
            return replace(
                self._compare(names, self.limits.whole, [DirectionKind.VALUES]), rough=False
            )
        return self._compare(
            names, self.limits.whole, [DirectionKind.GRADIENT, DirectionKind.VALUES]
        )

    def _group(self) -> None:
        """Group what is not grouped yet; move along the values too where that is needed."""
        self.groups = self.groups or grouped(self.subject, self.limits, self.flow.forward_seconds)
        is_wrong = any(self.verdicts[name].wrong for name in self.wholes)
        self.by_scale = is_wrong or len(self.groups) == len(self.subject.names)

    def judge_blocks(self) -> Numbers:
        """Compare central differences by block, or by parameter if that is quick.

        Where the module has 16-bit parts of its own, without these, whose rounding proves nothing;
        the step of rounding compares that gradient with the one in 16 bits.
        """
        if not self.flow.can_lift:
            return self._judge_blocks()
        with self.subject.lifted():
            self.verdicts = {name: self._compare_whole(own) for name, own in self.wholes.items()}
            return self._judge_blocks()

    def _judge_blocks(self) -> Numbers:
        self._group()
        self._compare_blocks(self.subject.names)
        order = {block: number for number, block in enumerate((*self.wholes, *self.groups))}
        ordered = sorted(self.verdicts, key=lambda block: order.get(block, 0))
        self.verdicts = {block: self.verdicts[block] for block in ordered}
        wrong = self._confirmed([b for b, found in self.verdicts.items() if found.wrong])
        rough = [block for block, found in self.verdicts.items() if found.rough]
        if wrong or rough:
            groups = self.groups | {n: own for n, own in self.wholes.items() if n != "(all)"}
            report = WrongGradients(self.flow, groups, self.verdicts).report
            wrong, rough = report(wrong, rough, self._compare_block)
        unproved = [b for b, v in self.verdicts.items() if b in rough or _is_below_noise(v)]
        if not wrong and len(unproved) == len(self.verdicts):
            _judge_noise(self.flow)
        if rough and not wrong and not self.exam.has("flat"):
            _report_rough(self.exam, rough)
        is_judged = self.exam.has("gradient-wrong", "flat")
        unseen = [] if is_judged else _unverified(self.verdicts, self.shares)
        if unseen:
            _note_unverified(self.exam, unseen)
        errors = [verdict.error for verdict in self.verdicts.values()]
        return {"worst error": max(errors, default=0.0), "unverified": len(unseen)}

    def _compare_blocks(self, names: Collection[str]) -> None:
        """Compare the blocks that lie within these parameters, once each."""
        within = set(names)
        for block, own in self.groups.items():
            if block in self.verdicts or not within.issuperset(own) or not self._with_gradient(own):
                continue
            self.verdicts[block] = verdict = self._compare(own, self.limits.block, self._ways())
            held = [n for n, p in self._with_gradient(own).items() if p.grad is not None]
            self.shares[block] = dict(zip(held, map(abs, verdict.shares), strict=True))

    def _confirmed(self, wrong: list[str]) -> list[str]:
        """Return the blocks that are wrong at other points near by as well.

        Next to a kink (a maximum of two equals, say) a difference is the mean of two slopes, but
        not at every point.
        """
        for number in range(1, _POINTS + 1):
            if not wrong:
                break
            with self.subject.elsewhere(number, self._names_of(wrong)) as loss:
                wrong = [block for block in wrong if self._is_wrong(block, loss)]
        return wrong

    def _is_wrong(self, block: str, loss: float) -> bool:
        return self._compare_block(block, loss).wrong

    def _compare_block(self, block: str, loss: float | None = None) -> Verdict:
        is_whole = block in self.wholes
        limit = self.limits.whole if is_whole else self.limits.block
        ways = self._ways(DirectionKind.GRADIENT if is_whole else DirectionKind.BENT)
        return self._compare(self._names_of([block]), limit, ways, loss=loss)

    def _ways(self, first: DirectionKind = DirectionKind.BENT) -> list[DirectionKind]:
        return [first, DirectionKind.VALUES] if self.by_scale else [first]

    def _names_of(self, blocks: Collection[str]) -> list[str]:
        groups = self.groups | self.wholes
        return [name for block in blocks for name in groups.get(block, self.subject.names)]

    def _with_gradient(self, names: Collection[str]) -> dict[str, nn.Parameter]:
        own, slopes, norms = self.subject.parameters, self.flow.slopes, self.flow.gradient_norms
        return {n: own[n] for n in names if norms.get(n, 0.0) > 0 and not slopes.is_excused(n)}

    def _compare(
        self,
        names: Collection[str],
        limit: float,
        ways: Sequence[DirectionKind],
        loss: float | None = None,
    ) -> Verdict:
        self.subject.hold(names)
        named = self._with_gradient(names)
        loss = self.flow.loss if loss is None else loss
        noise = self.limits.noise + self.flow.spread / max(self.flow.scale, 1e-30)
        is_far = self.subject.is_large and ways[0] is not DirectionKind.VALUES
        tried = _LARGEST_FIRST if is_far else self.limits.tried
        limits = replace(self.limits, noise=noise, tried=tried)
        tensors = [real(p.detach()) for p in named.values()]
        gradients = [real(g) for g in self._slopes_of(named)]

        def compare(limits: Limits, loss: float) -> Verdict:
            with self.flow.stand_ins.held():
                forward = self.subject.forward
                return differences.compare(
                    forward, tensors, gradients, limit, limits, loss=loss, ways=ways
                )

        if self.flow.is_coarse:  # its rounding is that of its own 16 bits, which are left out
            return compare(limits, loss)
        return self.flow.loss_rounding.judged(compare, limits, loss, self.flow.stand_ins)

    def _slopes_of(self, named: Mapping[str, nn.Parameter]) -> list[Tensor]:
        """Return the slopes that the gradients stand for: most are these themselves."""
        replica, factor = self.subject.replica, self.flow.slopes.factor_of
        grads = {name: parameter.grad for name, parameter in named.items()}
        found = {n: drop_padding(replica, n, g) for n, g in grads.items() if g is not None}
        return [g if factor(n) == 1 else g / factor(n) for n, g in found.items()]


def _judge_noise(flow: GradientFlow) -> None:
    """Fail a loss that stays at rounding noise even when all parameters move far."""
    with flow.subject.moved(flow.subject.names, _FAR):
        if max(abs(flow.loss), abs(flow.subject.forward())) >= _ROUNDING:
            return
    flow.exam.add(
        "FAIL",
        "flat",
        f"the loss is {flow.loss:.1e} wherever the parameters are, which is rounding "
        "noise, and so is its gradient: nothing can be trained. Compare the output with "
        "something other than itself.",
    )


def _report_rough(exam: Examination, rough: list[str]) -> None:
    """Report blocks along whose gradient no two differences agree."""
    exam.add(
        "WARN",
        "rough",
        f"the loss jumps or bends along the gradient of {some(rough)}, so differences "
        "prove nothing there (rounding, a straight-through estimator, sampling?).",
    )


def _note_unverified(exam: Examination, names: list[str]) -> None:
    exam.add(
        "NOTE",
        "unverified",
        f"{count(names)} not verified: their effect on this probe's loss is too small beside "
        f"its rounding noise, or beside their block's error: {some(names)}. The gradient exists; "
        "its value was not proved.",
        parameters=names,
    )


def _unverified(
    verdicts: Mapping[str, Verdict], shares: Mapping[str, Mapping[str, float]]
) -> list[str]:
    """Return the parameters of whose gradients half could be wrong unseen.

    Their share of the predicted change is small beside the noise, or beside their block's error.
    """
    found = []
    for block, own in shares.items():
        verdict = verdicts[block]
        whole = sum(own.values())
        if not (verdict.rough or verdict.wrong):
            least = 2 * max(verdict.noise, verdict.error * verdict.predicted) * whole
            found += [n for n, each in own.items() if each * verdict.predicted < least]
    return found


def _is_below_noise(verdict: Verdict) -> bool:
    """Return whether noise hides all that differences could say of a gradient."""
    is_judged = verdict.wrong or verdict.rough
    return not is_judged and verdict.predicted <= 2 * verdict.noise
