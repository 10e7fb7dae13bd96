"""Finds the line after which an object outside a forward holds a result of the forward.

A tracer examines a holder before and after each line of the caller's code. Runs only after a
failure.
"""

import functools
import gc
import os
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from types import CellType, FrameType, TracebackType
from typing import Any, Self

from torch import Tensor, nn

from gradient_check.diagnosis.copies import fresh_replica
from gradient_check.diagnosis.forward_diagnosis import ForwardDiagnosis
from gradient_check.findings.examination import attempted
from gradient_check.findings.report import NOWHERE, Place
from gradient_check.instruments.held_tensors import tensors_in
from gradient_check.instruments.recording import Recorder
from gradient_check.instruments.sources import is_callers, module_names, text_of
from gradient_check.instruments.subject import Subject
from gradient_check.instruments.syntax import Position

_STANDARD = os.path.dirname(os.__file__) + os.sep
_MEMORY = type(functools.cache(len))
IsKept = Callable[[Tensor, Recorder, Recorder], bool]
"""Gets an argument of a call, the record of an earlier forward, and that of the call's."""
Look = Callable[[], Sequence[Tensor]]
"""Returns the tensors that a holder holds now."""


class Retention:
    """The holders of a recorded forward's results once it has ended.

    Args:
        subject: its replica has run once, when the forward was recorded.
        recorder: of that forward; its own lists are not holders.
    """

    def __init__(self, subject: Subject, recorder: Recorder) -> None:
        self.subject = subject
        self.slots = _slots_of(subject.replica)
        others = [t for identity, t in recorder.known.items() if identity not in self.slots]
        self.holders = [(holder, look()) for holder, look in _holders_of(others, recorder)]

    def line_of(self, tensor: Tensor, run: Callable[[], object]) -> str | None:
        """Return the line after which one of these results was held.

        Args:
            tensor: held by an attribute of the replica, or by a container, a closure or a global.
            run: runs a forward of the subject's replica; for an attribute, of one that never ran.
        """
        if id(tensor) not in self.slots:
            looks = (_look_at(h) for h, held in self.holders if _is_among(tensor, held))
            return next(filter(None, (line_of(look, run) for look in looks)), None)
        return self.line_of_attribute(*self.slots[id(tensor)], run)

    def line_of_attribute(self, path: str, name: str, run: Callable[[], object]) -> str | None:
        """Return the line after which an attribute of a part of a new replica holds a tensor."""
        with fresh_replica(self.subject):
            part = self.subject.replica.get_submodule(path)
            return line_of(lambda: tensors_in(vars(part).get(name)), run)


def place_of_keeping(forward: ForwardDiagnosis, is_kept: IsKept, *, training: bool = True) -> Place:
    """Return the line that keeps a result which a later forward reuses; no place if none does.

    Two forwards of a replica that never ran are recorded. If no line is seen to keep the result,
    the call that makes it is named; for a result older than both forwards, the call that uses it.

    Args:
        forward: records the forwards of its subject.
        is_kept: returns whether an argument of a call is such a result.
        training: whether the forwards are a training's, else those of eval mode.
    """
    subject = forward.subject
    with fresh_replica(subject):
        earlier, _ = forward.record(training=training)
        retention = Retention(subject, earlier)
        later, _ = forward.record(training=training)
        pairs = ((event, tensor) for event in later.events for tensor in event.inputs)
        used = next((pair for pair in pairs if is_kept(pair[1], earlier, later)), None)
        if used is None:
            return NOWHERE
        place = earlier.made.get(id(used[1]), used[0]).place(module_names(subject.replica))
        run = subject.forward if training else subject.evaluate
        line = attempted(lambda: retention.line_of(used[1], run), None)
    return replace(place, line=line or place.line)


def is_made_before(tensor: Tensor, earlier: Recorder, later: Recorder) -> bool:
    """Return whether the earlier of two forwards made a tensor."""
    return id(tensor) in earlier.made and id(tensor) not in later.made


def line_that_replaces(subject: Subject, names: Collection[str]) -> str | None:
    """Return the line of a training forward that replaces a parameter by another."""
    with fresh_replica(subject):
        replica = subject.replica
        return line_of(lambda: named_tensors(replica, names), subject.forward)


def line_of(look: Look, run: Callable[[], object]) -> str | None:
    """Run code; return the line after which a holder held a new tensor that it still holds."""
    with _Tracer(look) as tracer, suppress(Exception):
        run()
    position = tracer.position()
    return None if position is None else text_of(position)


class _Tracer:
    """Records the line of the caller's code after which a holder first held each tensor."""

    def __init__(self, look: Look) -> None:
        self.look = look
        self.known = {id(tensor): tensor for tensor in look()}
        self.added: dict[int, tuple[Tensor, Position]] = {}
        self._last: Position | None = None
        self._returned: Position | None = None
        self._before: Any = None

    def __enter__(self) -> Self:
        self._before = sys.gettrace()
        sys.settrace(self._call)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        sys.settrace(self._before)
        self._compare()

    def position(self) -> Position | None:
        """Return the line of a new tensor that is held now, one with its graph first."""
        found = [self.added[id(t)] for t in self.look() if id(t) in self.added]
        found.sort(key=lambda pair: pair[0].grad_fn is None)
        return found[0][1] if found else None

    def _call(self, frame: FrameType, event: str, argument: object) -> Any:  # noqa: ANN401
        if is_callers(frame.f_code.co_filename):
            return self._step
        return self._end if frame.f_code.co_filename.startswith(_STANDARD) else None

    def _step(self, frame: FrameType, event: str, argument: object) -> Any:  # noqa: ANN401
        if event in ("line", "return"):
            self._compare()
            self._last = _position(frame if event == "line" else frame.f_back)
        if event == "return":
            self._returned = _position(frame)
        return self._step

    def _end(self, frame: FrameType, event: str, argument: object) -> Any:  # noqa: ANN401
        """Compare at the end of a library's decorator, which keeps a function's result."""
        if event == "return":
            before, self._last = self._last, self._returned or self._last
            self._compare()
            self._last = before
        return self._end

    def _compare(self) -> None:
        """Record the tensors that the last line has added."""
        for tensor in self.look():
            if id(tensor) not in self.known and self._last is not None:
                self.known[id(tensor)] = tensor
                self.added[id(tensor)] = tensor, self._last


def _position(frame: FrameType | None) -> Position | None:
    """Return the position of the innermost of the caller's frames."""
    while frame is not None:
        if is_callers(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return None


def _slots_of(module: nn.Module) -> dict[int, tuple[str, str]]:
    """Return, by id, the part and the attribute of each tensor that a module holds."""
    return {
        id(tensor): (path, name)
        for path, part in module.named_modules()
        for name, value in vars(part).items()
        if name != "_modules"
        for tensor in tensors_in(value)
    }


def _holders_of(tensors: list[Tensor], recorder: Recorder) -> Iterator[tuple[object, Look]]:
    """Yield the holders of tensors except records and frames: containers, cells, objects."""
    own = [tensors, recorder.known, recorder.storages, vars(recorder)]
    own += [each for event in recorder.events for each in (event.inputs, event.outputs)]
    apart = {id(each) for each in own}
    gc.collect()
    for holder in gc.get_referrers(*tensors):
        if id(holder) in apart or isinstance(holder, FrameType | tuple | type):
            continue
        if not any(isinstance(each, _MEMORY) for each in gc.get_referrers(holder)):
            yield holder, _look_at(holder)


def _is_among(tensor: Tensor, tensors: Sequence[Tensor]) -> bool:
    return any(each is tensor for each in tensors)


def _look_at(holder: Any) -> Look:  # noqa: ANN401 - anything may hold a tensor
    if isinstance(holder, CellType):
        return lambda: tensors_in(holder.cell_contents)
    return lambda: [each for each in _items(holder) if isinstance(each, Tensor)]


def _items(holder: Any) -> list[object]:  # noqa: ANN401
    if isinstance(holder, dict):
        return list(holder.values())
    with suppress(TypeError):
        return list(holder) if not hasattr(holder, "__dict__") else list(vars(holder).values())
    return []


def named_tensors(module: nn.Module, names: Collection[str]) -> list[Tensor]:
    """Return the present parameters and buffers of these names."""
    parts = ((module.get_submodule(n.rpartition(".")[0]), n.rpartition(".")[2]) for n in names)
    found = (part._parameters.get(leaf, part._buffers.get(leaf)) for part, leaf in parts)
    return [tensor for tensor in found if tensor is not None]
