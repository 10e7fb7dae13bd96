"""Finds the call at fault in a recorded forward."""

import re
from collections.abc import Collection
from typing import Any

from torch import Tensor

from gradient_check.findings.report import NOWHERE, Place
from gradient_check.instruments.event import Cuts, RecordedCall
from gradient_check.instruments.graph import nodes
from gradient_check.instruments.recording import Recorder
from gradient_check.instruments.sources import definition, text_of

STEPS = ("Round", "Sign", "Floor", "Ceil", "Trunc", "Sigmoid", "Tanh", "Softmax", "Heaviside")
GATES = ("Relu", "Threshold", "Clamp", "Hardtanh", "LeakyRelu", "Maximum", "Minimum")
STEP_CALLS = {"round", "sign", "floor", "ceil", "trunc", "fix", "sgn", "heaviside", "bernoulli"}
STEP_CALLS |= {"argmax", "argmin", "multinomial"}
DISCRETE = {"one_hot", "topk", "max", "min", "long", "to", "scatter", "scatter_", "searchsorted"}
COMPARISONS = {"gt", "ge", "lt", "le", "__gt__", "__ge__", "__lt__", "__le__", "where"}
_STRAIGHT_THROUGH = {"gumbel_softmax", "fake_quantize_per_tensor_affine"}
_STRAIGHT_THROUGH |= {"fake_quantize_per_channel_affine", "fused_moving_avg_obs_fake_quant"}


def likeliest(
    recorder: Recorder,
    flowing: set[RecordedCall],
    place: Place,
    names: dict[int, str],
    apart: Collection[int] = (),
) -> Place:
    """Find the last call in the module at fault that loses a graph or sets a hook.

    Args:
        recorder: a recorded forward.
        flowing: the cuts that flow into the loss.
        place: the module at fault, if known.
        names: names of the modules, by their ids.
        apart: indices of calls that are no suspects.
    """
    suspects = [e for e in recorder.events if e.is_cut or e.name == "register_hook"]
    suspects = [e for e in suspects if e.index not in apart]
    suspects.sort(key=lambda e: (e in flowing, e.index), reverse=True)
    path = (place.module or "(root)").split(" (")[0]
    for event in suspects:
        found = event.place(names)
        inside = found.module and f"{found.module.split(' (')[0]}.".startswith(f"{path}.")
        if found.line and (inside or path == "(root)"):
            return found if path == "(root)" else Place(place.module, found.line)
    for event in recorder.events:
        position = event.stack.checkpoint()
        if position and re.search("dropout|rand|bernoulli|multinomial|noise", event.name):
            # the recomputation drew other random numbers
            return Place(place.module, text_of(position))
    return place


def is_step_call(event: RecordedCall) -> bool:
    """Return whether a call may make a function a step function."""
    return event.name in STEP_CALLS | COMPARISONS


def is_hard_sample(event: RecordedCall) -> bool:
    """Return whether a call of torch's own gives discrete results with a stand-in gradient."""
    if event.name not in _STRAIGHT_THROUGH:
        return False
    values = [t.detach() for t in event.outputs if t.requires_grad]
    soft = event.name == "gumbel_softmax"
    return bool(values) and not (
        soft and any(bool(((t - t.round()).abs() > 1e-5).any()) for t in values)
    )


def flowing_into(cuts: Cuts) -> set[RecordedCall]:
    """Return the cuts, and those that flowed into them."""
    found: set[RecordedCall] = set()
    waiting = list(cuts)
    while waiting:
        event = waiting.pop()
        if event not in found:
            found.add(event)
            waiting.extend(event.sources)
    return found


def explain(wanted: set[int], cuts: Cuts) -> list[RecordedCall]:
    """Return the cuts nearest to the loss that the wanted parameters flowed into, largest first.

    Cuts whose outputs are whole numbers or truth values come last: a choice has no gradient.
    """
    culprits: list[RecordedCall] = []
    seen: set[RecordedCall] = set()
    while cuts and wanted:
        largest_first = sorted(cuts, key=lambda e: (_chooses(e), -e.size, e.index))
        hits = {event: wanted & event.reaches() for event in largest_first}
        culprits += [event for event, hit in hits.items() if hit]
        wanted = wanted.difference(*hits.values())
        seen |= cuts
        cuts = frozenset().union(*(e.sources for e in cuts)) - seen
    return culprits


def _chooses(event: RecordedCall) -> bool:
    severed = [tensor for tensor in event.outputs if not tensor.requires_grad]
    return bool(severed) and not any(tensor.is_floating_point() for tensor in severed)


def is_of_one_element(node: Any) -> bool:  # noqa: ANN401 - nodes have no common type in Python
    """Return whether a node is a softmax over one element, which is always 1.

    The node's graph must not have been freed by a backward yet.
    """
    if "SoftmaxBackward" not in node.name():
        return False
    result, axis = node._saved_result, node._saved_dim
    # autograd saves a negative axis without its sign
    axis = axis - 2**64 if axis >= 2**63 else axis
    return bool(result.shape[axis] == 1)


def overwriting(recorder: Recorder, text: str, names: dict[int, str]) -> Place:
    """Find the in-place write to a tensor that the named node had saved."""
    makers = [e for e in recorder.events if any(_made_by(t, text) for t in e.outputs)]
    saved = {address(t) for e in makers for t in (*e.inputs, *e.outputs)}
    writers = [e for e in recorder.events if e.writes and e.inputs and e.stack.position]
    exact = [e for e in writers if address(e.inputs[0]) in saved]
    for event in reversed(exact or writers):
        return event.place(names)
    return NOWHERE


def misdeclared(losses: Tensor | None, text: str) -> Place | None:
    """Find the backward of the custom function that an error of the graph names."""
    for node in nodes(None if losses is None else losses.grad_fn):
        function = getattr(type(node), "_forward_cls", None)
        if function is not None and node.name() in text:
            return Place(None, definition(function.backward))
    return None


def earlier_backward(recorder: Recorder, names: dict[int, str]) -> Place:
    """Find the forward's own call of backward, which frees the graph."""
    calls = [e for e in recorder.events if e.name == "backward" and e.stack.position]
    return calls[0].place(names) if calls else NOWHERE


def _made_by(tensor: Tensor, text: str) -> bool:
    return tensor.grad_fn is not None and tensor.grad_fn.name() in text


def address(tensor: Tensor) -> int:
    """Return the address of a tensor's memory, or -1 if it has none."""
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        return -1
