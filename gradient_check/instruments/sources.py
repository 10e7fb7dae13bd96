"""Finds source lines in the caller's code.

A frame counts as the caller's unless it belongs to PyTorch, to this package, or to a file that a
program around the check has named (`pass_over`).
"""

import inspect
import linecache
import os
import re
import sys
from collections.abc import Callable, Collection
from types import CodeType, FrameType, TracebackType

import torch
from torch import nn

from gradient_check.findings.report import NOWHERE, Place
from gradient_check.instruments.syntax import (
    Position,
    function_around,
    lines_of_statement,
    switched_off,
)
from gradient_check.phases.libraries import is_library_file

_TORCH = os.path.dirname(torch.__file__) + os.sep
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_OWN = (
    *(_PACKAGE + room + os.sep for room in ("checks", "diagnosis", "findings", "instruments")),
    *(_PACKAGE + name for name in ("arguments.py", "check.py", "hooks" + os.sep)),
    *(os.path.join(_PACKAGE, "phases", name) for name in ("gradient_step.py", "modes.py")),
    os.path.join(_PACKAGE, "phases", "randomness.py"),
)
_passed_over = [os.path.join(_PACKAGE, "phases", name) for name in ("lora.py", "checkpointing.py")]
_STANDARD = os.path.dirname(os.__file__) + os.sep
_CHECKPOINT = os.path.join("torch", "utils", "checkpoint.py")
_FUNCTION = os.path.join("torch", "autograd", "function.py")


def pass_over(filename: str) -> None:
    """Exclude a file from shown lines: it calls the code under test, or is called by it."""
    if filename not in _passed_over:
        _passed_over.append(filename)


def is_callers(filename: str) -> bool:
    """Return whether a file belongs to the code under test."""
    if filename.startswith(_STANDARD) and not is_library_file(filename):
        return False
    return not filename.startswith((_TORCH, *_OWN, *_passed_over, "<frozen", "<string>"))


def text_of(position: Position) -> str:
    """Return `file:line: code`; a path below the working directory is relative to it."""
    filename, number = position
    relative = os.path.relpath(filename) if os.path.isabs(filename) else filename
    shown = filename if relative.startswith("..") else relative
    return f"{shown}:{number}: {linecache.getline(filename, number).strip()}"


def texts_of(positions: Collection[Position]) -> list[str]:
    """Return `file:line: code` of every line of the statements at these positions, each once.

    With them come the heads of the `with` blocks around.
    """
    found = dict.fromkeys(line for position in positions for line in lines_of_statement(*position))
    return [text_of(position) for position in found]


def is_in_library(line: str | None) -> bool:
    """Return whether `file:line: code` is of an installed library."""
    return line is not None and is_library_file(os.path.abspath(line.split(":")[0]))


def definition(function: Callable[..., object]) -> str | None:
    """Return the `def` line of a function, below its decorators, or a lambda's line."""
    function = inspect.unwrap(getattr(function, "func", function))
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if code is None:
        return None
    return text_of(first_line(code))


def first_line(code: CodeType) -> Position:
    """Return the position of a function's `def`, below its decorators."""
    filename, number = code.co_filename, code.co_firstlineno
    while linecache.getline(filename, number).lstrip().startswith("@"):
        number += 1
    return filename, number


class Stack:
    """The frames on the stack at one moment, innermost first, without the self-test's own."""

    def __init__(self, frame: FrameType | None) -> None:
        self.frames: list[tuple[CodeType, int]] = []
        self.owners: list[int] = []
        self.depths: list[int] = []
        while frame is not None and not frame.f_code.co_filename.startswith(_OWN):
            self.frames.append((frame.f_code, frame.f_lineno))
            owner = frame.f_locals.get("self")
            if isinstance(owner, nn.Module):
                self.owners.append(id(owner))
                self.depths.append(len(self.frames))
            frame = frame.f_back

    @property
    def callers(self) -> list[Position]:
        """The positions in the caller's code."""
        return [(c.co_filename, n) for c, n in self.frames if is_callers(c.co_filename)]

    @property
    def around(self) -> tuple[Position, ...]:
        """The positions in the caller's code, each with the first line of its function."""
        own = [(c, n) for c, n in self.frames if is_callers(c.co_filename)]
        return tuple((c.co_filename, line) for c, n in own for line in (n, c.co_firstlineno))

    @property
    def position(self) -> Position | None:
        """The innermost position in the caller's code."""
        return next(iter(self.callers), None)

    @property
    def owners_at_position(self) -> list[int]:
        """The modules whose frames are at or around the innermost position of the caller's."""
        files = [is_callers(code.co_filename) for code, _ in self.frames]
        first = files.index(True) if True in files else 0
        pairs = zip(self.owners, self.depths, strict=True)
        return [owner for owner, depth in pairs if depth > first]

    def entry_from(self, modules: Collection[int]) -> Position | None:
        """Return the caller's line at which control left the innermost of these modules."""
        first = 0
        for owner, depth in zip(self.owners, self.depths, strict=True):
            if owner in modules:
                frames = ((c.co_filename, n) for c, n in self.frames[first:depth])
                return next((f for f in frames if is_callers(f[0])), None)
            first = depth
        return None

    @property
    def in_custom_function(self) -> bool:
        """Whether the frames are in a `torch.autograd.Function`'s forward, with its own graph."""
        inner = ""
        for code, _ in self.frames:
            if code.co_filename.endswith(_FUNCTION) and code.co_name == "apply":
                return not inner.endswith(_CHECKPOINT)
            inner = code.co_filename
        return False

    def checkpoint(self) -> Position | None:
        """Return the caller's line that called the checkpoint around these frames."""
        inside = False
        for code, number in self.frames:
            inside = inside or code.co_filename.endswith(_CHECKPOINT)
            if inside and is_callers(code.co_filename):
                return code.co_filename, number
        return None

    def grad_off(self) -> Position | None:
        """Return the line that switched gradients off: a `with`, a decorator or a call."""
        return next(filter(None, (switched_off(*position) for position in self.callers)), None)


def stack_here() -> Stack:
    """Return the stack of the recorder's caller."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    return Stack(frame)


def above(position: Position, pattern: str, reach: int = 12) -> Position:
    """Return the nearest matching line at or above a position in its function, else itself."""
    filename, number = position
    first, _ = function_around(position)
    for candidate in range(number, max(number - reach, first - 1), -1):
        if re.search(pattern, linecache.getline(filename, candidate)):
            return filename, candidate
    return position


def within(position: Position, pattern: str) -> Position:
    """Return the first matching line of a position's function, else the position itself."""
    filename, _ = position
    first, last = function_around(position)
    for candidate in range(first, last + 1):
        if re.search(pattern, linecache.getline(filename, candidate)):
            return filename, candidate
    return position


def raised_at(trace: TracebackType | None, names: dict[int, str]) -> Place:
    """Return the innermost module that ran when an exception was raised, and the caller's line."""
    module, line = None, None
    while trace is not None:
        frame, number = trace.tb_frame, trace.tb_lineno
        owner = frame.f_locals.get("self")
        if id(owner) in names:
            module = names[id(owner)]
        if is_callers(frame.f_code.co_filename):
            line = text_of((frame.f_code.co_filename, number))
        trace = trace.tb_next
    return Place(module, line) if line else NOWHERE


def module_names(module: nn.Module) -> dict[int, str]:
    """Return `path (Class)` of every module by its id."""
    return {
        id(part): f"{name or '(root)'} ({type(part).__name__})"
        for name, part in module.named_modules()
    }
