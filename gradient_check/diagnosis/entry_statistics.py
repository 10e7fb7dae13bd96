"""Finds stops that belong to a declared block: statistics of its input, for its use alone.

The scale of a fake quantization is the range of the weight that it quantizes, without a gradient.
If the block's gradient is declared not to be the slope, the declaration covers that range too.
"""

from collections.abc import Iterable, Iterator

from torch import Tensor
from torch.autograd.graph import Node

from gradient_check.instruments.crossings import Sites
from gradient_check.instruments.event import RecordedCall
from gradient_check.instruments.graph import leaf_of
from gradient_check.instruments.recording import Recorder


def entry_statistics(recorder: Recorder, sites: Sites) -> set[int]:
    """Return the indices of the calls that stop a gradient only for a declared surrogate block.

    Args:
        recorder: a recorded forward.
        sites: of the declared blocks.
    """
    inside = {event.index for event in recorder.events if _is_inside(event, sites)}
    if not inside:
        return set()
    blocks = [recorder.events[index] for index in inside]
    entries = [t for event in blocks for t in event.inputs if t.requires_grad]
    cuts = (event for event in recorder.events if event.is_cut and event.index not in inside)
    return {
        event.index
        for event in cuts
        if _is_of(entries, event) and _ends_within(inside, event, recorder)
    }


def _is_inside(event: RecordedCall, sites: Sites) -> bool:
    """Return whether a call is inside a declared surrogate block."""
    patterns = [sites.calls.get(event.index)]
    modules = {id(module): pattern for module, pattern in sites.modules.items()}
    patterns += [modules.get(owner) for owner in event.stack.owners]
    kinds = {kind.forward.__code__: pattern for kind, pattern in sites.declared_kinds.items()}
    patterns += [kinds.get(code) for code, _ in event.stack.frames]
    return any(pattern in sites.surrogates for pattern in patterns)


def _is_of(entries: list[Tensor], stop: RecordedCall) -> bool:
    """Return whether the stopped values are computed from entries of blocks alone."""
    own = {id(entry) for entry in entries}
    ends = {entry.grad_fn for entry in entries if entry.grad_fn is not None}
    return stop.leaves <= own and all(id(leaf) in own for leaf in _leaves(stop.roots, ends))


def _leaves(roots: Iterable[Node], ends: set[Node]) -> Iterator[Tensor]:
    """Yield the leaves that a graph reaches without passing these nodes."""
    waiting: list[Node | None] = list(roots)
    seen = set(ends)
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = leaf_of(node)
        if leaf is not None:
            yield leaf
        waiting.extend(following for following, _ in node.next_functions)


def _ends_within(inside: set[int], stop: RecordedCall, recorder: Recorder) -> bool:
    """Return whether every use of the stopped values, without a gradient, enters blocks."""
    values = {id(tensor) for tensor in stop.outputs}
    enters = False
    for event in recorder.events[stop.index + 1 :]:
        if not values.intersection(map(id, event.inputs)):
            continue
        if event.index in inside:
            enters = True
        elif not event.outputs or any(tensor.requires_grad for tensor in event.outputs):
            return False  # the value takes part in the compared loss, or leaves torch
        else:
            values.update(map(id, event.outputs))
    return enters
