"""Compares gradients with the slopes of the loss, measured by central differences."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from torch import Tensor, nn

from gradient_check.checks.block_groups import grouped
from gradient_check.checks.flow import GradientFlow
from gradient_check.instruments import differences
from gradient_check.instruments.differences import Limits, Verdict
from gradient_check.instruments.directions import DirectionKind
from gradient_check.instruments.noise import real
from gradient_check.instruments.padding import drop_padding

_LARGEST_FIRST = (2, 0, 1)  # small moves of very many weights are mostly lost in rounding


class GradientSlopes:
    """Compares the gradients of a flow; the state is the results so far.

    Attributes:
        verdicts: of each block that was compared, and of each whole.
        shares: of the parameters of a block in the change that its gradient predicts.
        wholes: the parameters of each whole: of all, or in a large module of a portion.
        groups: the parameters of each block.
    """

    def __init__(self, flow: GradientFlow) -> None:
        self.flow = flow
        self.verdicts: dict[str, Verdict] = {}
        self.shares: dict[str, dict[str, float]] = {}
        self.wholes: dict[str, list[str]] = {}
        self.groups: dict[str, list[str]] = {}
        self._by_scale = True  # whether a comparison also moves along the values

    def compare_whole(self, whole: str) -> None:
        """Compare along the gradient of a whole, then along its values.

        A large module is compared along its values alone, which takes a second, if its blocks are
        compared as exactly along the gradient. A bend of the loss along the values proves nothing.
        """
        names, limits = self.wholes[whole], self.flow.limits
        if self.flow.subject.is_large and limits.block <= limits.whole:
            verdict = self._compare(names, limits.whole, [DirectionKind.VALUES])
            self.verdicts[whole] = replace(verdict, rough=False)
        else:
            ways = [DirectionKind.GRADIENT, DirectionKind.VALUES]
            self.verdicts[whole] = self._compare(names, limits.whole, ways)

    def compare_blocks(self, names: Collection[str]) -> None:
        """Compare the blocks that lie within these parameters, once each."""
        self._group()
        within = set(names)
        for block, own in self.groups.items():
            if block in self.verdicts or not within.issuperset(own) or not self._with_gradient(own):
                continue
            verdict = self._compare(own, self.flow.limits.block, self._ways(DirectionKind.BENT))
            self.verdicts[block] = verdict
            held = [n for n, p in self._with_gradient(own).items() if p.grad is not None]
            self.shares[block] = dict(zip(held, map(abs, verdict.shares), strict=True))
        order = {block: number for number, block in enumerate((*self.wholes, *self.groups))}
        ordered = sorted(self.verdicts, key=lambda block: order.get(block, 0))
        self.verdicts = {block: self.verdicts[block] for block in ordered}

    def compare_again(self, block: str, loss: float | None = None) -> Verdict:
        """Compare a block, or a whole, once more; at another point its loss is given."""
        is_whole = block in self.wholes
        limit = self.flow.limits.whole if is_whole else self.flow.limits.block
        ways = self._ways(DirectionKind.GRADIENT if is_whole else DirectionKind.BENT)
        return self._compare(self.names_of([block]), limit, ways, loss=loss)

    def names_of(self, blocks: Collection[str]) -> list[str]:
        """Return the parameters of blocks and wholes."""
        groups = self.groups | self.wholes
        return [name for block in blocks for name in groups.get(block, self.flow.subject.names)]

    def _group(self) -> None:
        """Group the parameters not grouped yet; move along the values too if needed."""
        subject, flow = self.flow.subject, self.flow
        self.groups = self.groups or grouped(subject, flow.limits, flow.forward_seconds)
        is_wrong = any(self.verdicts[name].wrong for name in self.wholes)
        self._by_scale = is_wrong or len(self.groups) == len(subject.names)

    def _ways(self, first: DirectionKind) -> list[DirectionKind]:
        return [first, DirectionKind.VALUES] if self._by_scale else [first]

    def _with_gradient(self, names: Collection[str]) -> dict[str, nn.Parameter]:
        flow = self.flow
        own, norms = flow.subject.parameters, flow.gradient_norms
        return {n: own[n] for n in names if norms.get(n, 0.0) > 0 and not flow.slopes.is_excused(n)}

    def _compare(
        self,
        names: Collection[str],
        limit: float,
        ways: Sequence[DirectionKind],
        *,
        loss: float | None = None,
    ) -> Verdict:
        flow, subject = self.flow, self.flow.subject
        subject.hold(names)
        named = self._with_gradient(names)
        loss = flow.loss if loss is None else loss
        noise = flow.limits.noise + flow.spread / max(flow.scale, 1e-30)
        is_far = subject.is_large and ways[0] is not DirectionKind.VALUES
        tried = _LARGEST_FIRST if is_far else flow.limits.tried
        limits = replace(flow.limits, noise=noise, tried=tried)
        tensors = [real(p.detach()) for p in named.values()]
        gradients = [real(g) for g in _slopes_of(flow, named)]

        def compare(limits: Limits, loss: float) -> Verdict:
            with flow.stand_ins.held():
                return differences.compare(
                    subject.forward, tensors, gradients, limit, limits, loss=loss, ways=ways
                )

        # a coarse subject rounds in 16 bits of its own; the comparison leaves this rounding out
        if flow.is_coarse:
            return compare(limits, loss)
        return flow.loss_rounding.judged(compare, limits, loss, flow.stand_ins)


def _slopes_of(flow: GradientFlow, named: Mapping[str, nn.Parameter]) -> list[Tensor]:
    """Return the slopes that the gradients represent: for most, the gradients themselves."""
    replica, factor = flow.subject.replica, flow.slopes.factor_of
    grads = {name: parameter.grad for name, parameter in named.items()}
    found = {n: drop_padding(replica, n, g) for n, g in grads.items() if g is not None}
    return [g if factor(n) == 1 else g / factor(n) for n, g in found.items()]
