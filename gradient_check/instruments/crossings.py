"""Blocks whose gradient is declared: each is held still, with its own backward as the slope.

At its entry, such a block gets the input of one fixed point, and the loss gets one more term: the
gradient that the block passed backward at that point, times the input's change. The slope of this
loss equals autograd's gradient if and only if everything outside the blocks is right.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from gradient_check.findings.report import Place

Phase = Literal["away", "seen", "held"]
_COARSE = (torch.bfloat16, torch.float16)
_BACKWARD_HOOKS = ("_backward_hooks", "_backward_pre_hooks")


class Pausable(Protocol):
    """A mode that counts calls, unless it is paused."""

    paused: bool


@dataclass
class Sites:
    """The starts of declared blocks, each with the declaration's pattern.

    Attributes:
        modules: starts at modules, by the module.
        functions: starts at calls of custom functions, by the call's number among such calls in a
            forward.
        kinds: the custom functions' classes; `declared_kinds` are those of declared calls.
        surrogates: the patterns of blocks whose gradient is not the slope.
        calls: starts at torch calls, by the call's number in a forward.
        hooks: starts at calls of `register_hook`, by the call's number.
        names: the parameters that a declaration names.
        inside: the parameters in blocks whose gradient is not the slope.
        places: the place of each pattern's first block.
    """

    modules: dict[nn.Module, str] = field(default_factory=dict)
    functions: dict[int, str] = field(default_factory=dict)
    kinds: list[Any] = field(default_factory=list)
    declared_kinds: dict[Any, str] = field(default_factory=dict)
    surrogates: Collection[str] = ()
    calls: dict[int, str] = field(default_factory=dict)
    hooks: dict[int, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    inside: set[str] = field(default_factory=set)
    places: dict[str, Place] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.modules or self.functions or self.calls or self.hooks)


class _Put(torch.autograd.Function):
    """Returns another tensor's values, and passes the gradient on."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, values: Tensor) -> Tensor:  # noqa: ANN401
        """Return the values."""
        return values.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:  # noqa: ANN401
        """Return the gradient."""
        return gradients[0], None


class Crossings:
    """The values that enter the blocks of some sites, in the order of a forward.

    Attributes:
        values: at the held point.
        gradients: passed backward by the blocks there; None: none.
        moved: the blocks' inputs while they are held: the values, unless they are moved.
        patterns: the declaration of each.
    """

    def __init__(self, sites: Sites) -> None:
        self.sites = sites
        self.values: list[Tensor] = []
        self.gradients: list[Tensor | None] = []
        self.moved: list[Tensor] = []
        self.patterns: list[str] = []
        self.phase: Phase = "away"
        self.mode: Pausable | None = None
        self.count = self.calls = 0
        self.change: Tensor | float = 0.0
        self._aliases: dict[tuple[int, str], tuple[Tensor, Tensor]] = {}

    def begin(self) -> None:
        """Begin a forward."""
        self.count = self.calls = 0
        self.change = 0.0
        self._aliases = {}
        if self.phase == "seen":
            self.values, self.gradients, self.patterns = [], [], []

    def hold(self, scale: float) -> None:
        """Hold the values and gradients of the last forward and backward from now on.

        Args:
            scale: the factor of that backward's loss.
        """
        self.phase = "held"
        self.gradients = [None if g is None else g.double() / scale for g in self.gradients]
        self.moved = [
            value.float() if value.dtype in _COARSE else value.clone() for value in self.values
        ]

    def added(self, losses: Tensor) -> Tensor:
        """Add the blocks' own gradients times the changes at their entries to the losses."""
        if self.phase == "seen":  # a backward may run a part of the forward again
            self.phase = "away"
        return losses + self.change if self.phase == "held" else losses

    def of(self, pattern: str) -> list[int]:
        """Return the numbers of a declaration's entries that have a gradient."""
        pairs = enumerate(zip(self.patterns, self.gradients, strict=True))
        return [n for n, (own, g) in pairs if own == pattern and g is not None]

    def enter(self, value: Any, pattern: str) -> Any:  # noqa: ANN401 - what a block is given
        """Return a block's input for one of its arguments."""
        key = (id(value), pattern)
        if key in self._aliases:
            return self._aliases[key][1]
        with self.paused():
            if self.phase == "away" or not _is_entry(value):
                return value
            self._aliases[key] = (value, self._entered(value, pattern))
        return self._aliases[key][1]

    def leave(self, result: Any, pattern: str) -> None:  # noqa: ANN401 - what a call returns
        """Mark the results of a line's call as its own: they enter no block again."""
        for value in tree_leaves(result):
            if isinstance(value, Tensor):
                self._aliases[id(value), pattern] = (value, value)

    def _entered(self, value: Tensor, pattern: str) -> Tensor:
        number = self._noted(value, pattern)
        if self.phase == "held":
            held = self.moved[number].to(value.dtype)
            put: Tensor = _Put.apply(value, held)  # type: ignore[no-untyped-call]
            return put
        alias = value.view_as(value)
        alias.register_hook(self._keeping(number))  # type: ignore[no-untyped-call]
        return alias

    def enter_function(self, value: Any, pattern: str) -> tuple[Any, int | None]:  # noqa: ANN401
        """Return a custom function's input for an argument, and the entry's number."""
        with self.paused():
            if self.phase == "away" or not _is_entry(value):
                return value, None
            number = self._noted(value, pattern)
            if self.phase != "held":
                return value, number
            return self.moved[number].to(value.dtype, copy=True), number

    def hook(self, value: Tensor, pattern: str) -> None:
        """Treat a tensor with a new hook as the entry of a block: that hook."""
        if self.phase == "away" or not _is_entry(value):
            return
        number = self._noted(value, pattern)
        if self.phase == "held":
            value.data.copy_(self.moved[number])
        else:
            value.register_hook(self._keeping(number))  # type: ignore[no-untyped-call]

    def keep(self, number: int, gradient: Tensor | None) -> None:
        """Store a gradient that a block passed backward."""
        if gradient is not None:
            self.gradients[number] = gradient.detach().clone()

    def _noted(self, value: Tensor, pattern: str) -> int:
        number, self.count = self.count, self.count + 1
        if self.phase == "seen":
            self.values.append(value.detach().clone())
            self.gradients.append(None)
            self.patterns.append(pattern)
            return number
        gradient = self.gradients[number]
        if gradient is not None:
            apart = value.detach().double() - self.values[number].double()
            self.change = self.change + (gradient * apart).sum()
        return number

    def _keeping(self, number: int) -> Callable[[Tensor], None]:
        return lambda gradient: self.keep(number, gradient)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pause the mode that counts calls, for a while."""
        before = self.mode.paused if self.mode else False
        if self.mode:
            self.mode.paused = True
        try:
            yield
        finally:
            if self.mode:
                self.mode.paused = before


def has_backward_hook(module: nn.Module) -> bool:
    """Return whether a module has a hook that may change its gradient."""
    return any(getattr(module, table, None) for table in _BACKWARD_HOOKS)


def _is_entry(value: object) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point() and value.requires_grad
