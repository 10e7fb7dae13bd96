"""The gradients that a backward leaves: all, or, in a large module, a portion's at a time.

Every backward runs through the whole module. A gradient that is not needed yet is dropped on
arrival; when it is needed, it is computed again, at the same values with the same random numbers.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from torch import Tensor, nn

from gradient_check.instruments.gradient_facts import GradientFacts

GRADIENTS, STEPS = 2, 3  # portions of a module: a step stores two more tensors for each parameter


def portions_of(parameters: Mapping[str, Tensor], count: int) -> list[list[str]]:
    """Group neighbouring parameters by bytes, in at most so many groups."""
    whole, before = max(1, sum(p.nbytes for p in parameters.values())), 0
    groups: dict[int, list[str]] = {}
    for name, parameter in parameters.items():
        middle = before + parameter.nbytes / 2
        groups.setdefault(int(count * middle / whole), []).append(name)
        before += parameter.nbytes
    return list(groups.values())


class HeldGradients:
    """The gradients of a module's parameters, kept or dropped.

    Args:
        parameters: the trained parameters by name.

    Attributes:
        kept: the names whose gradients backward keeps; None: all names.
        arrived: the names whose gradients arrived in the last backward.
        facts: facts of the gradients that the last backward dropped, while `noting`.
    """

    def __init__(self, parameters: Mapping[str, nn.Parameter]) -> None:
        self.parameters = parameters
        self.kept: Collection[str] | None = None
        self.arrived: set[str] = set()
        self.facts: dict[str, GradientFacts] = {}
        self._notes = False

    def has(self, names: Collection[str]) -> bool:
        """Return whether backward keeps the gradients of these names."""
        return self.kept is None or set(names) <= set(self.kept)

    def keep(self, names: Collection[str]) -> None:
        """Drop the present gradients; from now on, backward keeps the gradients of these names."""
        self.clear()
        self.kept = frozenset(names)

    def clear(self) -> None:
        """Drop all gradients."""
        for parameter in self.parameters.values():
            parameter.grad = None

    @contextmanager
    def dropping(self) -> Iterator[None]:
        """Drop gradients that are not kept as they arrive."""
        self.arrived, self.facts = set(), {}
        others = [] if self.kept is None else [n for n in self.parameters if n not in self.kept]
        hooks = [self._drop_on_arrival(n) for n in others if self.parameters[n].requires_grad]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
            self.arrived |= {n for n, p in self.parameters.items() if p.grad is not None}

    def _drop_on_arrival(self, name: str) -> "_Handle":
        def drop(parameter: Tensor) -> None:
            if self._notes and name not in self.arrived and parameter.grad is not None:
                self.facts[name] = GradientFacts.of(parameter.grad)
            elif name in self.arrived:
                # a gradient in several parts, of which each has other facts
                self.facts.pop(name, None)
            self.arrived.add(name)
            parameter.grad = None

        handle: _Handle = self.parameters[name].register_post_accumulate_grad_hook(drop)  # type: ignore[no-untyped-call]
        return handle

    @contextmanager
    def noting(self, is_scaled: bool) -> Iterator[None]:
        """Take the facts of dropped gradients, unless they still have to be scaled."""
        self._notes = not is_scaled
        try:
            yield
        finally:
            self._notes = False

    def facts_of(self, names: Collection[str]) -> dict[str, GradientFacts] | None:
        """Return the facts of these gradients, present or dropped; None: unknown."""
        found = dict(self.facts)
        for name in names:
            gradient = self.parameters[name].grad
            if gradient is not None:
                found[name] = GradientFacts.of(gradient)
            elif name in self.arrived and name not in found:
                return None
        return {name: found[name] for name in names if name in found}

    @contextmanager
    def keeping(self, names: Collection[str]) -> Iterator[None]:
        """Keep these gradients too for a while, and drop them afterwards."""
        before = self.kept
        if before is not None:
            self.kept = frozenset(before) | frozenset(names)
        try:
            yield
        finally:
            if before is not None:
                self.keep(())


class _Handle:
    def remove(self) -> None: ...
