"""A question of the examination: a module with its probe and loss, and what must be said of it."""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

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
    """A maker of a case, and the answer that is right.

    Attributes:
        group: what the table counts it under.
        codes: the codes of which one must be found as a failure; none for a healthy model.
        lines: the lines of the source of which one must be named; those with `fault` in a comment.
        warnings: codes of warnings that a healthy model may get, because they are true.
        unverified: a parameter that must fail or be named as not verified.
    """

    group: str
    name: str
    make: Callable[[], Case]
    codes: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    unverified: str | None = None

    @property
    def is_fault(self) -> bool:
        """Whether a failure is the right answer."""
        return bool(self.codes)


class Questions(list[Question]):
    """The questions of one group; its methods are decorators of makers."""

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


def _marked_lines(make: Callable[[], Case]) -> Iterator[str]:
    """Yield the marked lines; where one is inside a `backward`, its `def` and decorator too.

    A backward that is wrong is named as a whole: differences say that it is, not which line of it.
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
