"""Recognises the stops of straight-through estimators, which replace the slope of a step function.

Such a sum has the values of a step and the gradient of something smooth: `h + (step(h) -
h).detach()`, or `step(h) - s.detach() + s`, in any order of terms.
"""

from torch import Tensor

from gradient_check.diagnosis.culprits import COMPARISONS, DISCRETE, STEP_CALLS, STEPS, flowing_into
from gradient_check.instruments.event import RecordedCall
from gradient_check.instruments.graph import leaf_of, nodes
from gradient_check.instruments.recording import Recorder

_DETACHES = {"detach", "data.__get__"}
_ADDITIONS = {"add", "__add__", "__radd__", "__iadd__", "add_"}
_SUBTRACTIONS = {"sub", "__sub__", "__rsub__", "rsub", "subtract", "__isub__", "sub_"}
_REVERSED = {"__rsub__", "rsub"}
_NEGATIONS = {"neg", "__neg__", "negative", "neg_"}
_SUMS = _ADDITIONS | _SUBTRACTIONS | _NEGATIONS
_Terms = list[tuple[int, Tensor]]


def operands_of(event: RecordedCall, recorder: Recorder) -> list[Tensor]:
    """Return the operands of `step(h) - h` if an event detaches it to stand in for the step."""
    if event.name not in _DETACHES or not event.is_cut:
        return []
    maker = recorder.made.get(id(event.inputs[0]))
    is_remainder = maker is not None and maker.name in _SUBTRACTIONS and _steps(event)
    return maker.inputs if maker is not None and is_remainder else []


def subtracts_itself(event: RecordedCall, recorder: Recorder) -> bool:
    """Return whether an event is the detach of `h + (step(h) - h).detach()`.

    Or that of `step(h) + s - s.detach()`, in which only a surrogate `s` gives the gradient; or one
    of the two in `step(h).detach() - h.detach() + h`; or that of another order of such terms.
    """
    if event.name not in _DETACHES or not event.is_cut:
        return False
    if operands_of(event, recorder):
        return True
    users = [e for e in recorder.events if _takes(e, event.outputs) and e.name in _SUBTRACTIONS]
    if any(_adds(user, event.inputs[0], recorder) and _is_discrete(user) for user in users):
        return True
    return any(_passes_through(user, recorder) for user in users) or _replaces(event, recorder)


def _passes_through(difference: RecordedCall, recorder: Recorder) -> bool:
    """Return whether a subtraction is that of `step(h).detach() - h.detach() + h`."""
    parts = [recorder.made.get(id(each)) for each in difference.inputs]
    stops = [part for part in parts if part is not None and part.name in _DETACHES]
    if len(stops) != 2 or not _steps(stops[0]):
        return False
    users = [e for e in recorder.events if _takes(e, difference.outputs) and e.name in _ADDITIONS]
    return any(_takes(user, stops[1].inputs) for user in users)


def _takes(event: RecordedCall, tensors: list[Tensor]) -> bool:
    return any(one is other for one in event.inputs for other in tensors)


def _adds(event: RecordedCall, tensor: Tensor, recorder: Recorder) -> bool:
    """Return whether an operand of a subtraction is a tensor, or a sum that holds it."""
    makers = [recorder.made.get(id(each)) for each in event.inputs]
    sums = [maker for maker in makers if maker is not None and maker.name in _ADDITIONS]
    return _takes(event, [tensor]) or any(_takes(each, [tensor]) for each in sums)


def _replaces(stop: RecordedCall, recorder: Recorder) -> bool:
    """Return whether a step is added to the stopped values' difference from themselves.

    The smallest sum that has a term beside these two decides; later additions are outside the
    estimator.
    """
    flowing, stopped = stop.inputs[0], stop.outputs[0]
    sums = {stop.index}
    for event in recorder.events[stop.index + 1 :]:
        parts = [recorder.events[index] for index in sums]
        if event.name not in _SUMS or not any(_takes(event, part.outputs) for part in parts):
            continue
        sums.add(event.index)
        terms = _terms(event, recorder, (flowing, stopped))
        rest = [each for _, each in terms if each is not flowing and each is not stopped]
        signs = [[sign for sign, each in terms if each is tensor] for tensor in (flowing, stopped)]
        if rest and signs in ([[1], [-1]], [[-1], [1]]):
            return any(_is_step_of(each, event, recorder, flowing) for each in rest)
    return False


def _terms(total: RecordedCall, recorder: Recorder, known: tuple[Tensor, ...]) -> _Terms:
    """Return the terms of a sum of sums, each with its sign; the known ones are not taken apart."""
    signed = [
        (-1 if _is_subtracted(number, total) else 1, tensor)
        for number, tensor in enumerate(total.inputs)
    ]
    found: _Terms = []
    for sign, tensor in signed:
        is_known = any(tensor is each for each in known)
        maker = None if is_known else _maker_before(total, tensor, recorder)
        if maker is None or maker.name not in _SUMS:
            found.append((sign, tensor))
        else:
            found += [(sign * own, each) for own, each in _terms(maker, recorder, known)]
    return found


def _is_subtracted(number: int, event: RecordedCall) -> bool:
    """Return whether an operand is subtracted; `1 - h` has one tensor, as `h - 1` has."""
    if event.name in _NEGATIONS:
        return True
    return event.name in _SUBTRACTIONS and (number == 0) == (event.name in _REVERSED)


def _maker_before(user: RecordedCall, tensor: Tensor, recorder: Recorder) -> RecordedCall | None:
    """Return the call that gave a tensor the values that a later call gets."""
    for event in reversed(recorder.events[: user.index]):
        if any(tensor is output for output in event.outputs):
            return event
    return None


def _is_step_of(tensor: Tensor, user: RecordedCall, recorder: Recorder, flowing: Tensor) -> bool:
    """Return whether values come from a step function, or were chosen by one, without a gradient.

    The path back from them passes only values without a gradient, or a stop. A term with a gradient
    of its own to the estimator's source (`h * (h > 0)`) is no step.
    """
    graph = set(nodes(tensor.grad_fn))
    if any(node.name().startswith(STEPS[:5]) for node in graph):
        return True
    if any(leaf_of(node) is None for node in graph.intersection(nodes(flowing.grad_fn))):
        return False
    waiting, seen = [(tensor, user)], set[int]()
    while waiting:
        each, later = waiting.pop()
        maker = _maker_before(later, each, recorder)
        if maker is None or maker.index in seen:
            continue
        seen.add(maker.index)
        if maker.name in STEP_CALLS or _gives_choice(maker):
            return True
        follows = maker.name in _DETACHES
        waiting += [(t, maker) for t in maker.inputs if follows or not t.requires_grad]
    return False


def _gives_choice(event: RecordedCall) -> bool:
    """Return whether a call makes whole numbers or truth values of floats."""
    is_of_floats = any(tensor.is_floating_point() for tensor in event.inputs)
    return is_of_floats and any(not tensor.is_floating_point() for tensor in event.outputs)


def _steps(event: RecordedCall) -> bool:
    """Return whether a call detaches values that come from a step function."""
    graph = (node.name() for root in event.roots for node in nodes(root))
    return any(name.startswith(STEPS[:5]) for name in graph) or _is_discrete(event)


def _is_discrete(event: RecordedCall) -> bool:
    discrete = STEP_CALLS | COMPARISONS | DISCRETE
    return any(source.name in discrete for source in flowing_into(event.sources))
