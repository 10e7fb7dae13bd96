"""Finds the call that made a tensor kept from an earlier inference, in a closure's dict, say.

The holder drops it for a while, and a recorded forward makes it again. Runs only after a failure.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import CellType
from typing import Any

from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from gradient_check.diagnosis.forward_diagnosis import ForwardDiagnosis
from gradient_check.findings.report import NOWHERE, Place
from gradient_check.instruments.recording import Recorder

_DEPTH = 2  # levels, such as a tensor in a tuple in a dict; each takes a walk through all objects
_MOST = 2
_MISSING = object()
# a function that forgets a value; it returns a function that restores the value and returns the
# new value
Forget = Callable[[], Callable[[], object]]


def maker_of_inference_tensor(forward: ForwardDiagnosis) -> Place:
    """Return the call that makes the inference tensor given to the last recorded call."""
    recorder, _ = forward.record()
    kept = _kept_of(recorder, list(recorder.events[-1].inputs) if recorder.events else [])
    del recorder  # so that the record does not count as a holder
    for _, new, again in _made_again(forward, kept, training=True):
        if id(new) in again.made:
            return again.made[id(new)].place(forward.names)
    return NOWHERE


def made_again(forward: ForwardDiagnosis) -> Iterator[tuple[Tensor, Tensor, Recorder]]:
    """Yield each inference tensor given to an eval forward, with its new counterpart.

    The tensor's holder drops the tensor for a while; the third value is the record of the forward.
    """
    recorder, _ = forward.record(training=False)
    kept = _kept_of(recorder, [tensor for event in recorder.events for tensor in event.inputs])
    del recorder
    yield from _made_again(forward, kept, training=False)


def _kept_of(recorder: Recorder, waiting: list[Tensor]) -> list[Tensor]:
    """Return the inference tensors that older code made, and from which `waiting` was computed."""
    found: list[Tensor] = []
    seen: set[int] = set()
    while waiting:
        tensor = waiting.pop()
        if id(tensor) in seen or not tensor.is_inference():
            continue
        seen.add(id(tensor))
        maker = recorder.made.get(id(tensor))
        if maker is None:
            found.append(tensor)
        else:
            waiting += maker.inputs
    return found


def _made_again(
    forward: ForwardDiagnosis, kept: list[Tensor], *, training: bool
) -> Iterator[tuple[Tensor, Tensor, Recorder]]:
    gc.collect()
    ways = ((t, *way) for t in kept[:_MOST] for way in _ways_to_forget(t, kept))
    for tensor, forget, index in ways:
        put_back = forget()
        try:
            recorder, _ = forward.record(training=training)
        finally:
            value = put_back()
        new = next(iter(tree_leaves(value)[index : index + 1]), None)
        if isinstance(new, Tensor):
            yield tensor, new, recorder


def _ways_to_forget(tensor: Tensor, apart: object) -> list[tuple[Forget, int]]:
    """Return how to make each holder drop a tensor, and the tensor's place among the dropped."""
    ways: list[tuple[Forget, int]] = []
    value: object = tensor
    for _ in range(_DEPTH):  # a tuple is forgotten by its own holder
        index = next((i for i, leaf in enumerate(tree_leaves(value)) if leaf is tensor), 0)
        holders = [h for h in gc.get_referrers(value) if h is not apart]
        ways += [(forget, index) for holder in holders for forget in _ways(holder, value)]
        around = (h for h in holders if isinstance(h, tuple) and _is_among(value, h))
        value = next(around, None)
        if value is None:
            break
    return ways


def _ways(holder: Any, value: object) -> Iterator[Forget]:  # noqa: ANN401 - anything may hold it
    if isinstance(holder, CellType):
        yield lambda: _forget_attribute(holder, "cell_contents")
    elif isinstance(holder, dict):
        keys = [key for key, item in list(holder.items()) if item is value]
        owner = _class_of(holder)
        yield from (_of_dict(holder, k) if owner is None else _of_attribute(owner, k) for k in keys)
    elif isinstance(holder, list) and _is_among(value, holder):
        yield lambda: _forget_items(holder)
    elif not isinstance(holder, tuple | list | nn.Module):
        with suppress(TypeError):
            names = [name for name, item in list(vars(holder).items()) if item is value]
            yield from (_of_attribute(holder, name) for name in names)


def _class_of(namespace: dict[Any, Any]) -> type | None:
    """Return the class whose attributes a dict holds: writes must go through the class."""
    owners = gc.get_referrers(namespace) if "__module__" in namespace else []
    kinds = (each for each in owners if isinstance(each, type))
    return next((kind for kind in kinds if kind.__dict__ == namespace), None)


def _of_dict(holder: dict[Any, Any], key: object) -> Forget:
    is_namespace = "__name__" in holder or "__module__" in holder
    return lambda: _forget_item(holder, key, None if is_namespace else _MISSING)


def _of_attribute(holder: object, name: str) -> Forget:
    return lambda: _forget_attribute(holder, name)


def _forget_item(holder: dict[Any, Any], key: object, empty: object) -> Callable[[], object]:
    kept = holder.pop(key)
    if empty is not _MISSING:
        holder[key] = empty

    def put_back() -> object:
        new = holder.get(key)
        holder[key] = kept
        return new

    return put_back


def _forget_items(holder: list[Any]) -> Callable[[], object]:
    kept, holder[:] = list(holder), []

    def put_back() -> object:
        new, holder[:] = list(holder), kept
        return new

    return put_back


def _forget_attribute(holder: object, name: str) -> Callable[[], object]:
    kept = getattr(holder, name)
    setattr(holder, name, None)

    def put_back() -> object:
        new = getattr(holder, name)
        setattr(holder, name, kept)
        return new

    return put_back


def _is_among(value: object, items: tuple[object, ...] | list[object]) -> bool:
    return any(item is value for item in items)
