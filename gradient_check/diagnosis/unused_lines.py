"""Finds the line that leaves a parameter unused; the search runs only after a failure.

The line is the last line with the parameter's value, a line that uses other parameters like it, a
line of the code that skips the parameter, or else the line that makes the parameter.
"""

import ast
import re
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from types import CodeType, FrameType
from typing import NamedTuple

from torch import Size, Tensor

from gradient_check.diagnosis.computed_once import computed_once
from gradient_check.diagnosis.definitions import assigned, assigned_near, attribute
from gradient_check.diagnosis.diagnosis import Diagnosis
from gradient_check.instruments.event import RecordedCall
from gradient_check.instruments.sources import first_line, is_callers, text_of
from gradient_check.instruments.syntax import Position, function_at, surrounds

_NUMBERED = re.compile(r"\.\d+(?=\.|$)")
_LOOPS = ast.For | ast.While | ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp


class Explanation(NamedTuple):
    """A line, and a sentence about its relation to an unused parameter."""

    text: str
    line: str | None


class UnusedLines:
    """Explains, by one recorded forward, why a parameter is not used."""

    def __init__(self, diagnosis: Diagnosis) -> None:
        self.subject = diagnosis.subject
        self.names = diagnosis.names
        self.events = diagnosis.forward.record()[0].events

    def explain(self, name: str) -> Explanation:
        """Return the likeliest reason why the loss ignores a parameter."""
        found = self._dropped(name) or self._left_out(name) or self._computed_once(name)
        found = found or self._mistaken(name)
        whole = self._whole(name)
        found = found or self._passed_over(whole)
        if found is not None:
            return found
        module, positions = self.subject.replica, [p for e in self.events for p in e.stack.callers]
        line = assigned(module, whole) or assigned_near(module, whole, positions)
        line = line or assigned(module, name)  # for a part in a list
        return Explanation(" The named line makes it." if line else "", line)

    def _dropped(self, name: str) -> Explanation | None:
        """Find the last call that computes with values from the parameter."""
        last, derived = None, set[int]()
        for event in self._uses([name], derived):
            derived |= {id(tensor) for tensor in event.outputs}
            last = event
        if last is None:
            return None
        line = last.entry(self.names).line
        return Explanation(" The named line is the last to use a value computed from it.", line)

    def _left_out(self, name: str) -> Explanation | None:
        """Find the line that uses others of the same list, and the loop over them."""
        kind = _NUMBERED.sub(".*", name)
        others = [n for n in self.subject.names if n != name and _NUMBERED.sub(".*", n) == kind]
        uses = list(self._uses(others)) if "*" in kind else []
        if not uses:
            return None
        container = kind.split(".*")[0]
        position = self._position(uses[-1], container)
        head = _loop_over(position, container.rpartition(".")[2])
        return Explanation(
            " The named line uses other parameters of its list.", text_of(head or position)
        )

    def _computed_once(self, name: str) -> Explanation | None:
        """Find the line that earlier computed the forward's value from the parameter."""
        position = computed_once(self.subject.replica, name, self._functions())
        text = " The forward uses a value that the named line computed from it once."
        return Explanation(text, text_of(position)) if position else None

    def _mistaken(self, name: str) -> Explanation | None:
        """Find the second use of a part of the same shape, perhaps a mistake for this one."""
        for other in self.subject.names:
            pair = _apart_in_one(name, other)
            is_alike = pair is not None and self._shapes(pair[0]) == self._shapes(pair[1])
            uses = list(self._uses([other])) if is_alike else []
            if pair and len(uses) == 2:
                text = f" The named line uses {pair[1]} a second time; is {pair[0]} meant?"
                return Explanation(text, text_of(self._position(uses[1], pair[1])))
        return None

    def _shapes(self, path: str) -> dict[str, Size]:
        """Return the shapes of what lies on a path, by the rest of the names."""
        own = self.subject.parameters.items()
        return {n[len(path) :]: p.shape for n, p in own if f"{n}.".startswith(f"{path}.")}

    def _passed_over(self, path: str) -> Explanation | None:
        """Find the line of an executed function that mentions a part, or that skips it."""
        name = attribute(self.subject.replica, path)
        heads = (_passing(position, name) for position in self._functions())
        found = next(filter(None, heads), None)
        return Explanation(" The named line skips it.", text_of(found)) if found else None

    def _whole(self, name: str) -> str:
        """Return the path of the largest unused part around a parameter."""
        path = name
        while "." in path:
            around = path.rpartition(".")[0]
            if any(self._uses(n for n in self.subject.names if n.startswith(f"{around}."))):
                break
            path = around
        return path

    def _uses(self, names: Iterable[str], derived: Collection[int] = ()) -> Iterator[RecordedCall]:
        """Yield the calls that compute with parameters, or with tensors derived from them."""
        leaves = {id(self.subject.parameters[name]) for name in names}
        for event in self.events:
            is_used = bool(event.leaves & leaves) or _takes(event.inputs, derived)
            if is_used and event.stack.position:
                yield event

    def _position(self, event: RecordedCall, path: str) -> Position:
        """Return the line at which control entered the modules on a path."""
        names = self.names.items()
        outer = {i for i, name in names if not f"{name.split(' (')[0]}.".startswith(f"{path}.")}
        position = event.stack.entry_from(outer) or event.stack.position
        assert position is not None  # an event that uses the parameter has a position
        return position

    def _functions(self) -> list[Position]:
        """Run a forward; return the positions of the caller's functions that ran."""
        codes: dict[CodeType, None] = {}

        def note(frame: FrameType, event: str, _: object) -> None:
            if event == "call":
                codes.setdefault(frame.f_code)

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            with suppress(Exception):
                self.subject.forward()
        finally:
            sys.setprofile(before)
        return [first_line(code) for code in codes if is_callers(code.co_filename)]


def _apart_in_one(name: str, other: str) -> tuple[str, str] | None:
    """Return the parts in which two paths differ if they differ in one name, else None."""
    parts, others = name.split("."), other.split(".")
    pairs = zip(parts, others, strict=False)
    apart = [number for number, (one, its) in enumerate(pairs, 1) if one != its]
    if len(parts) != len(others) or len(apart) != 1 or apart[0] == len(parts) > 1:
        return None
    return ".".join(parts[: apart[0]]), ".".join(others[: apart[0]])


def _takes(inputs: Iterable[Tensor], derived: Collection[int]) -> bool:
    return any(id(tensor) in derived for tensor in inputs)


def _loop_over(position: Position, name: str) -> Position | None:
    """Return the head of the innermost loop around a line that runs over an attribute's items."""
    loops = [n for n in _inside(position) if isinstance(n, _LOOPS) and surrounds(n, position[1])]
    for loop in sorted(loops, key=lambda n: n.lineno, reverse=True):
        if isinstance(loop, ast.While):
            return (position[0], loop.lineno) if _mentions(loop.test, name) else None
        head = loop if isinstance(loop, ast.For) else loop.generators[0]
        targets = {n.id for n in ast.walk(head.target) if isinstance(n, ast.Name)}
        if _mentions(head.iter, name) or any(_is_item(n, name, targets) for n in ast.walk(loop)):
            return position[0], head.iter.lineno
    return None


def _is_item(node: ast.AST, name: str, targets: set[str]) -> bool:
    """Return whether a node is `self.name[target]`."""
    if not isinstance(node, ast.Subscript) or not _mentions(node.value, name):
        return False
    return any(isinstance(n, ast.Name) and n.id in targets for n in ast.walk(node.slice))


def _passing(position: Position, name: str) -> Position | None:
    """Return the condition that skips an attribute in a line's function, else its mention."""
    nodes = list(_inside(position))
    branches = [n for n in nodes if isinstance(n, ast.If)]
    heads = [n.lineno for n in branches if any(_mentions(s, name) for s in (*n.body, *n.orelse))]
    attributes = [n for n in nodes if isinstance(n, ast.Attribute)]
    mentions = [n.lineno for n in attributes if n.attr == name]
    found = [max(heads)] if heads else mentions[:1]
    return (position[0], found[0]) if found else None


def _inside(position: Position) -> Iterator[ast.AST]:
    function = function_at(position)
    return ast.walk(function) if function else iter(())


def _mentions(node: ast.AST, name: str) -> bool:
    return any(_is_attribute(each, name) for each in ast.walk(node))


def _is_attribute(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == name
