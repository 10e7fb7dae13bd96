"""Warns of gradients that vanish or explode from layer to layer."""

import math
from itertools import pairwise

from gradient_check.checks.flow import GradientFlow
from gradient_check.findings.examination import Numbers
from gradient_check.findings.report import count, some
from gradient_check.instruments.selection import by_layer, group_by_block

_LARGEST = 1e3
_SMALLEST = 1e-8
_RATIO = 1e3  # allowed between neighbouring blocks of one list


def judge_magnitudes(flow: GradientFlow) -> Numbers:
    """Warn of layers with very small or large gradients, and of leaps between blocks."""
    layers = {layer: norm for layer, norm in by_layer(flow.gradient_norms).items() if norm > 0}
    small = [layer for layer, norm in layers.items() if norm < _SMALLEST]
    large = [layer for layer, norm in layers.items() if _LARGEST < norm < math.inf]
    if small:
        flow.exam.add(
            "WARN",
            "vanishing",
            f"{count(small, 'layer')} with a gradient norm below {_SMALLEST:g} (the least: "
            f"{min(layers[each] for each in small):.1e}): {some(small)}. Look for saturated "
            "activations, a missing normalisation or residual, or a very small factor.",
            module=small[0],
        )
    if large:
        flow.exam.add(
            "WARN",
            "exploding",
            f"{count(large, 'layer')} with a gradient norm above {_LARGEST:g} (the most: "
            f"{max(layers[each] for each in large):.1e}): {some(large)}. Take means instead of "
            "sums, normalise, clip, or start from smaller weights.",
            module=large[0],
        )
    if not (small or large):
        _judge_leaps(flow)
    sizes = [norm for norm in layers.values() if math.isfinite(norm)] or [0.0]
    return {"least": min(sizes), "most": max(sizes)}


def _judge_leaps(flow: GradientFlow) -> None:
    """Warn of neighbours with very different norms in the longest list of blocks."""
    groups = group_by_block(flow.subject.replica, list(flow.gradient_norms))
    numbered = {block: own for block, own in groups.items() if block.rpartition(".")[2].isdigit()}
    blocks = {b: math.hypot(*(flow.gradient_norms[n] for n in own)) for b, own in numbered.items()}
    blocks = {block: norm for block, norm in blocks.items() if 0 < norm < math.inf}
    for (one, first), (other, second) in pairwise(blocks.items()):
        if max(first, second) > _RATIO * min(first, second):
            flow.exam.add(
                "WARN",
                "vanishing",
                f"the gradient norm of {one} is {first:.1e}, that of its neighbour {other} "
                f"{second:.1e}: they differ by more than {_RATIO:g}.",
                module=one if first < second else other,
            )
            return
