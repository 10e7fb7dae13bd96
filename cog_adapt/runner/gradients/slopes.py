"""Step 10: checks by central differences that the gradients are the slopes of the loss."""

import time
from collections.abc import Collection
from dataclasses import replace

from torch import nn

from cog_adapt.runner.gradients import differences
from cog_adapt.runner.gradients.differences import Verdict
from cog_adapt.runner.gradients.examination import Numbers
from cog_adapt.runner.gradients.flow import GradientFlow
from cog_adapt.runner.gradients.noise import real
from cog_adapt.runner.gradients.report import count, some
from cog_adapt.runner.gradients.selection import group_by_block
from cog_adapt.runner.gradients.wrong_gradients import WrongGradients

_MOST_BLOCKS = 16
_SECONDS = 0.3  # the longest that testing each parameter on its own may take
_POINTS = 2
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
        self.groups: dict[str, list[str]] = {}
        self.forward_seconds = 0.0

    def judge_repeatability(self) -> Numbers:
        """Check that the same seed gives the same loss; else differences would measure noise."""
        began = time.perf_counter()
        self.flow.spread = abs(self.subject.forward() - self.flow.loss)
        self.forward_seconds = time.perf_counter() - began
        relative = self.flow.spread / max(abs(self.flow.loss), 1e-30)
        if relative > self.limits.noise:
            self.exam.warn(
                "nondeterministic",
                f"two training forwards with the same seed differ by {relative:.1e} of the loss; "
                "below that, wrong gradients cannot be seen.",
            )
        return {"spread": relative}

    def judge_whole(self) -> Numbers:
        """Compare central differences along the gradient of all parameters together."""
        named = self._with_gradient(self.subject.names)
        verdict = self._compare(named, self.limits.whole, bent=False)
        self.verdicts["(all)"] = verdict
        return {"error": verdict.error}

    def judge_blocks(self) -> Numbers:
        """Compare central differences by block, or by parameter if that is quick."""
        self.groups = self._grouped()
        for block, names in self.groups.items():
            named = self._with_gradient(names)
            if named:
                self.verdicts[block] = self._compare(named, self.limits.block, bent=True)
        wrong = self._confirmed([b for b, verdict in self.verdicts.items() if verdict.wrong])
        rough = [block for block, verdict in self.verdicts.items() if verdict.rough]
        if wrong or rough:
            report = WrongGradients(self.flow, self.groups, self.verdicts).report
            wrong, rough = report(wrong, rough, self._compare_block)
        if rough and not wrong and len(rough) == len(self.verdicts) and self._is_noise():
            self.exam.fail(
                "flat",
                f"the loss is {self.flow.loss:.1e} wherever the parameters are, which is rounding "
                "noise, and so is its gradient: nothing can be trained. Compare the output with "
                "something other than itself.",
            )
        elif rough and not wrong:
            self.exam.warn(
                "rough",
                f"the loss jumps or bends along the gradient of {some(rough)}, so differences "
                "prove nothing there (rounding, a straight-through estimator, sampling?).",
            )
        unseen = self._unverified() if not self.exam.has("gradient-wrong", "flat") else []
        if unseen:
            self.exam.note(
                "unverified",
                f"{count(unseen)} not verified: their effect on this probe's loss is below its "
                f"rounding noise: {some(unseen)}. The gradient exists; its value was not proved.",
                unseen,
            )
        errors = [verdict.error for verdict in self.verdicts.values()]
        return {"worst error": max(errors, default=0.0), "unverified": len(unseen)}

    def _unverified(self) -> list[str]:
        """Return the parameters whose own share of the predicted change is below the noise."""
        found = []
        for block, verdict in self.verdicts.items():
            if block == "(all)" or verdict.rough or verdict.wrong:
                continue
            named = self._with_gradient(self.groups.get(block, ()))
            gradients = {n: p.grad for n, p in named.items() if p.grad is not None}
            shares = {n: differences.share(real(g.to_dense())) for n, g in gradients.items()}
            least = 2 * verdict.noise * sum(shares.values())
            found += [n for n, own in shares.items() if own * verdict.predicted < least]
        return found

    def _is_noise(self) -> bool:
        """Return whether the loss stays at rounding noise even when all parameters move far."""
        with self.subject.moved(self.subject.names, _FAR):
            return max(abs(self.flow.loss), abs(self.subject.forward())) < _ROUNDING

    def _confirmed(self, wrong: list[str]) -> list[str]:
        """Return the blocks that are wrong at other points near by as well.

        Next to a kink (a maximum of two equals, say) a difference is the mean of two slopes, but
        not at every point.
        """
        for number in range(1, _POINTS + 1):
            if not wrong:
                break
            with self.subject.elsewhere(number) as loss:
                wrong = [block for block in wrong if self._is_wrong(block, loss)]
        return wrong

    def _is_wrong(self, block: str, loss: float) -> bool:
        return self._compare_block(block, loss).wrong

    def _compare_block(self, block: str, loss: float | None = None) -> Verdict:
        named = self._with_gradient(self.groups.get(block, self.subject.names))
        is_whole = block == "(all)"
        limit = self.limits.whole if is_whole else self.limits.block
        return self._compare(named, limit, bent=not is_whole, loss=loss)

    def _grouped(self) -> dict[str, list[str]]:
        names = self.subject.names
        seconds = 2 * len(names) * self.forward_seconds
        if self.limits is differences.FLOAT32 and seconds < _SECONDS:
            return {name: [name] for name in names}
        return _merged(group_by_block(self.subject.replica, names))

    def _with_gradient(self, names: Collection[str]) -> dict[str, nn.Parameter]:
        own = self.subject.parameters
        return {n: own[n] for n in names if self.flow.gradient_norms.get(n, 0.0) > 0}

    def _compare(
        self, named: dict[str, nn.Parameter], limit: float, *, bent: bool, loss: float | None = None
    ) -> Verdict:
        loss = self.flow.loss if loss is None else loss
        noise = self.limits.noise + self.flow.spread / max(abs(loss), 1e-30)
        limits = replace(self.limits, noise=noise)
        tensors = [real(p.detach()) for p in named.values()]
        gradients = [real(p.grad.to_dense()) for p in named.values() if p.grad is not None]
        forward = self.subject.forward
        return differences.compare(forward, tensors, gradients, limit, limits, loss=loss, bent=bent)


def _merged(groups: dict[str, list[str]]) -> dict[str, list[str]]:
    """Merge neighbouring groups, so that a deep model has at most sixteen."""
    size = -(-len(groups) // _MOST_BLOCKS)
    names = list(groups)
    chunks = (names[first : first + size] for first in range(0, len(names), size))
    return {
        chunk[0] if len(chunk) == 1 else f"{chunk[0]} to {chunk[-1]}": [
            parameter for name in chunk for parameter in groups[name]
        ]
        for chunk in chunks
    }
