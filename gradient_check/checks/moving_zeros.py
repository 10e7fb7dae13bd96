"""Finds entries of gradients that are exactly 0 although the loss depends on the values there."""

from collections.abc import Collection

from gradient_check.checks.flow import GradientFlow
from gradient_check.checks.loss_rounding import CANCELLED
from gradient_check.instruments import differences
from gradient_check.instruments.noise import real
from gradient_check.instruments.padding import ignoring_padding


def note_moving_zeros(flow: GradientFlow, portion: list[str]) -> None:
    """Look once for such entries in a portion; in a large module, best while it is held."""
    if flow.limits is not differences.SIXTEEN_BIT and portion[0] not in flow.moving_zeros:
        norms = flow.gradient_norms
        names = [n for n in norms if norms[n] > 0 and n in flow.partly_zero]
        names = [name for name in names if not flow.slopes.is_excused(name)]
        flow.moving_zeros[portion[0]] = _moving(flow, portion, names)


def _moving(flow: GradientFlow, portion: list[str], names: list[str]) -> list[str]:
    """Return the parameters whose zero entries change the loss, tested together first."""
    names = [name for name in names if name in set(portion)]
    if names:
        flow.subject.hold(portion)
    if not names or not zeros_move(flow, names):
        return []
    return [n for n in names if zeros_move(flow, [n])]


def zeros_move(flow: GradientFlow, names: Collection[str]) -> bool:
    """Return whether the loss changes with entries of these parameters that have no gradient."""
    subject, own = flow.subject, flow.subject.parameters
    tensors = [real(own[n].detach()) for n in names]
    gradients = [
        real(ignoring_padding(subject.replica, n, g))
        for n in names
        if (g := own[n].grad) is not None
    ]
    views, directions = differences.zero_entries(tensors, gradients)
    noise = flow.limits.noise * flow.scale + flow.spread

    def is_seen_above(noise: float) -> bool:
        with flow.stand_ins.held():
            return differences.depends_linearly(
                subject.forward, views, directions, noise_level=noise
            )

    if not views or not is_seen_above(noise):
        return False
    # measured late, because it takes forwards
    rounding = flow.loss_rounding.while_held(flow.stand_ins)
    return rounding <= CANCELLED * noise or is_seen_above(rounding)
