"""A question of the examination: a module with its probe and loss, and the right report on it.

The tests, the examination and its sealed half have all their cases in this one form.
"""

import ast
import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

Made = TypeVar("Made", bound=Callable[[], nn.Module])
_MARK = re.compile(r"#.*\bfault\b")


def rows(*shape: int, seed: int = 7) -> Tensor:
    """Return the same standard normal values each time."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def numbers(high: int, *shape: int, seed: int = 7) -> Tensor:
    """Return the same whole numbers below `high` each time."""
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(seed))


def off_target(output: Tensor) -> Tensor:
    """Return a loss for each row: the mean squared distance from 0.25."""
    return (output - 0.25).square().flatten(1).mean(1)


@dataclass(frozen=True)
class Case:
    """The arguments of one call of `check_gradients`."""

    module: nn.Module
    probe: Any
    loss: Callable[..., Any] = off_target
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Question:
    """A maker of a case, and the right answer.

    Attributes:
        group: the family that the table counts it under.
        codes: the codes of which one must be found; none for a healthy model.
        lines: parts of the line to be named, one of which must stand in it: `file.py:12:` or code.
        warnings: codes of warnings that a healthy model may get, because they are true.
        unverified: a parameter that must fail or be named as not verified.
        place: a part of the path of the module to be named.
        level: of the finding with one of the codes; `WARN` for a fault that is no failure.
    """

    group: str
    name: str
    make: Callable[[], Case]
    codes: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    unverified: str | None = None
    place: str | None = None
    level: str = "FAIL"

    @property
    def is_fault(self) -> bool:
        """Whether a failure is the right answer."""
        return bool(self.codes)


class Questions(list[Question]):
    """The questions of one group; its methods are decorators of makers of cases."""

    def __init__(self, group: str) -> None:
        super().__init__()
        self.group = group

    def fault(self, *codes: str) -> Callable[[Callable[[], Case]], Callable[[], Case]]:
        """Register a module that must fail with one of these codes."""

        def register(make: Callable[[], Case]) -> Callable[[], Case]:
            lines = tuple(_marked_lines(make))
            self.append(Question(self.group, make.__name__, make, codes, lines))
            return make

        return register

    def healthy(self, *warnings: str) -> Callable[[Callable[[], Case]], Callable[[], Case]]:
        """Register a module that must pass, with no other warnings than these."""

        def register(make: Callable[[], Case]) -> Callable[[], Case]:
            self.append(Question(self.group, make.__name__, make, warnings=warnings))
            return make

        return register

    def hidden(self, parameter: str) -> Callable[[Callable[[], Case]], Callable[[], Case]]:
        """Register a fault below the noise: the parameter must fail or be named as unverified."""

        def register(make: Callable[[], Case]) -> Callable[[], Case]:
            self.append(Question(self.group, make.__name__, make, unverified=parameter))
            return make

        return register


class ModuleQuestions(Questions):
    """Questions about modules; their methods are decorators of makers of the module alone.

    Args:
        host: what a part is put into.
        place: the path of a part in its host.
        shared: fields of each `Case`, unless a question has its own.
    """

    def __init__(
        self,
        group: str,
        host: Callable[[nn.Module], nn.Module] = nn.Sequential,
        place: str = "",
        **shared: Any,
    ) -> None:
        super().__init__(group)
        self.host = host
        self.place = place
        self.shared = shared

    def faulty(
        self, code: str, place: str | None = None, line: str | None = None, **rest: Any
    ) -> Callable[[Made], Made]:
        """Register a function or class that makes a whole module with a fault."""
        level = rest.pop("level", "FAIL")
        lines = () if line is None else (line,)

        def register(made: Made) -> Made:
            self._add(made, rest, codes=(code,), lines=lines, place=place, level=level)
            return made

        return register

    def faulty_part(
        self, code: str, line: str | None = None, **rest: Any
    ) -> Callable[[Made], Made]:
        """Register the class of a host's part that has a fault."""
        place = rest.pop("place", self.place)

        def register(kind: Made) -> Made:
            self.faulty(code, place, line, **rest)(self._hosting(kind))
            return kind

        return register

    def sound(self, *warnings: str, **own: Any) -> Callable[[Made], Made]:
        """Register a function or class that makes a whole healthy module."""

        def register(made: Made) -> Made:
            self._add(made, own, warnings=warnings)
            return made

        return register

    def sound_part(self, kind: Made) -> Made:
        """Register the class of a host's healthy part."""
        self.sound()(self._hosting(kind))
        return kind

    def _hosting(self, kind: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
        @functools.wraps(kind, updated=())
        def make() -> nn.Module:
            return self.host(kind())

        return make

    def _add(self, made: Callable[[], nn.Module], own: dict[str, Any], **answer: Any) -> None:
        def make() -> Case:
            return Case(made(), **{**self.shared, **own})

        self.append(Question(self.group, made.__name__, make, **answer))


def _marked_lines(make: Callable[[], Case]) -> Iterator[str]:
    """Yield the marked lines; for one inside a `backward`, also its `def` and decorator.

    A wrong backward is named as a whole: differences show the fault, but not its line.
    """
    source, first = inspect.getsourcelines(make)
    file = (inspect.getsourcefile(make) or "").rsplit("/", 1)[-1]
    marked = {number for number, text in enumerate(source, first) if _MARK.search(text)}
    for node in ast.walk(ast.parse(textwrap.dedent("".join(source)))):
        if isinstance(node, ast.FunctionDef) and node.name == "backward":
            inside = range(node.lineno + first - 1, (node.end_lineno or 0) + first)
            heads = {inside.start, *(each.lineno + first - 1 for each in node.decorator_list)}
            marked |= heads if marked & {*inside} else set()
    yield from (f"{file}:{number}:" for number in sorted(marked))
