"""Gradients declared not to be slopes, or to be the slope times a factor; and their sites.

A declaration names modules or parameters by a regex, or a part of a line: of a custom function's
call, of the function itself, or of a hook.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from torch import nn

from gradient_check.findings.examination import Examination
from gradient_check.findings.report import Place, some
from gradient_check.instruments.crossing_points import replaced
from gradient_check.instruments.crossings import Sites, has_backward_hook
from gradient_check.instruments.declared import at, is_name, is_part
from gradient_check.instruments.recording import Recorder
from gradient_check.instruments.sources import Stack, stack_here, text_of, texts_of
from gradient_check.instruments.subject import Subject

_OF_GRAPHS = ("grad", "backward")  # calls whose arguments are a graph, not values
Lines = dict[Any, list[str]]


class DeclaredSlopes:
    """The caller's `reversed_gradients` and `surrogate_gradients`, and where they were found.

    Args:
        factors: of `reversed_gradients`, by pattern.
        surrogates: the patterns of `surrogate_gradients`.
    """

    def __init__(
        self, factors: Mapping[str, float] | None = None, surrogates: Sequence[str] = ()
    ) -> None:
        self.factors = dict(factors or {})
        self.surrogates = tuple(surrogates)
        self.sites = Sites()

    @property
    def patterns(self) -> tuple[str, ...]:
        """All patterns."""
        return (*self.factors, *self.surrogates)

    def find(self, subject: Subject, names: dict[int, str], kinds: Sequence[Any]) -> None:
        """Record a forward, and find the starts of the declared blocks.

        Args:
            subject: its forward is run.
            names: names of the replica's modules, by their ids.
            kinds: the custom functions that the forward uses.
        """
        if self.patterns:
            self.sites = _Search(subject, names, kinds).found(self)

    def factor_of(self, name: str) -> float:
        """Return a parameter's own gradient as a multiple of its slope."""
        return self.factors.get(self.sites.names.get(name, ""), 1.0)

    def is_excused(self, name: str) -> bool:
        """Return whether a parameter's gradient is declared not to be a slope."""
        return name in self.sites.inside or self.sites.names.get(name) in self.surrogates

    def report(self, exam: Examination) -> None:
        """Add a note for each declaration that was found, and warn of those that were not."""
        self._report(exam, "surrogate", "surrogate_gradients", self.surrogates)
        self._report(exam, "reversed-gradient", "reversed_gradients", self.factors)

    def _report(self, exam: Examination, code: str, argument: str, patterns: Iterable[str]) -> None:
        patterns = list(patterns)
        found = [pattern for pattern in patterns if pattern in self.sites.places]
        absent = [repr(pattern) for pattern in patterns if pattern not in found]
        for pattern in [] if exam.has("gradient-wrong") else found:
            place = self.sites.places[pattern]
            factor = self.factors.get(pattern) if code == "reversed-gradient" else None
            what = "not the slope, and only the rest of the model is compared"
            what = what if factor is None else f"the slope times {factor:g}, as was measured"
            exam.add(
                "NOTE",
                code,
                f"the gradient of {pattern!r} is {what}, as `{argument}` declares.",
                parameters=[name for name, own in self.sites.names.items() if own == pattern],
                module=place.module,
                line=place.line,
            )
        if absent:
            exam.add(
                "WARN",
                code,
                f"`{argument}` declares {some(absent)}, but the forward has no such name. Remove "
                "the declaration, or write the module's path, the parameter's name or a part of "
                "the line.",
            )


class _Search:
    """Finds declared blocks in a recorded forward."""

    def __init__(self, subject: Subject, names: dict[int, str], kinds: Sequence[Any]) -> None:
        self.subject = subject
        self.names = names
        self.calls: list[tuple[Any, Stack]] = []
        self.lines: Lines = {kind: _lines_of(kind) for kind in kinds}
        self.recorder = Recorder()
        self.looks_around = False
        self.modules = {path: part for path, part in subject.replica.named_modules() if path}
        self._record(kinds)

    def _record(self, kinds: Sequence[Any]) -> None:
        loss = self.subject.loss
        with ExitStack() as stack:
            for kind in kinds:
                stack.enter_context(replaced(kind, {"forward": self._noting(kind)}))
            loss.recorder = self.recorder
            try:
                self.subject.forward()
            finally:
                loss.recorder = None

    def _noting(self, kind: Any) -> Callable[..., Any]:  # noqa: ANN401
        run = kind.forward

        def forward(*args: Any) -> Any:  # noqa: ANN401
            self.calls.append((kind, stack_here()))
            return run(*args)

        return forward

    def found(self, declared: DeclaredSlopes) -> Sites:
        """Return the sites of all declarations; a place belongs to the first that names it."""
        sites = Sites(kinds=list(self.lines), surrogates=declared.surrogates)
        own = (self._parameters, self._hooked, self._inner, self._within, self._outer)
        for pattern in declared.factors:
            self._look(sites, pattern, own)
        for pattern in declared.surrogates:
            self._look(sites, pattern, (self._parameters, self._outer, self._inner))
            for module, own_pattern in sites.modules.items():
                sites.inside |= self._parameters_of(module) if own_pattern == pattern else set()
        return sites

    def _look(self, sites: Sites, pattern: str, ways: Sequence[Callable[..., bool]]) -> None:
        """Search in one way after another, then by the lines of calls that lead to a block.

        A line stands for its custom function or hook rather than for all of its calls.
        """
        around = ((self._inner, True), (self._line, False), (self._line, True))
        for look, self.looks_around in (*((way, False) for way in ways), *around):
            if look(sites, pattern):
                return

    def _parameters(self, sites: Sites, pattern: str) -> bool:
        hits = {n: pattern for n in self.subject.names if is_name(pattern, n)}
        sites.names.update({n: p for n, p in hits.items() if n not in sites.names})
        return self._note(sites, pattern, bool(hits), Place())

    def _hooked(self, sites: Sites, pattern: str) -> bool:
        """Find modules with hooks that may change the gradient."""
        return self._add_modules(sites, pattern, lambda part: has_backward_hook(part))

    def _outer(self, sites: Sites, pattern: str) -> bool:
        """Find modules, except those inside of a found one."""
        return self._add_modules(sites, pattern, lambda part: True)

    def _add_modules(self, sites: Sites, pattern: str, fits: Callable[[nn.Module], bool]) -> bool:
        hits = [
            path for path, part in self.modules.items() if is_name(pattern, path) and fits(part)
        ]
        hits = [p for p in hits if not any(p.startswith(f"{other}.") for other in hits)]
        for path in hits:
            sites.modules.setdefault(self.modules[path], pattern)
        place = Place(self.names[id(self.modules[hits[0]])]) if hits else Place()
        return self._note(sites, pattern, bool(hits), place)

    def _inner(self, sites: Sites, pattern: str) -> bool:
        """Find calls of custom functions and hooks."""
        places = {}
        for number, (kind, stack) in enumerate(self.calls):
            place = self._place_of(stack)
            if self._names(pattern, place, self.lines[kind]):
                places[sites.functions.setdefault(number, pattern)] = place
                sites.declared_kinds.setdefault(kind, pattern)
        for event in self.recorder.events:
            place = event.place(self.names)
            if event.name == "register_hook" and self._names(pattern, place):
                places[sites.hooks.setdefault(event.index, pattern)] = place
        return self._note(sites, pattern, bool(places), places.get(pattern, Place()))

    def _within(self, sites: Sites, pattern: str) -> bool:
        """Find calls of one custom function anywhere in a module."""
        hits = {}
        for number, (kind, stack) in enumerate(self.calls):
            paths = (self.names.get(owner, "").split(" (")[0] for owner in stack.owners)
            if any(path and is_name(pattern, path) for path in paths):
                hits[number] = kind
        if len(set(hits.values())) != 1:
            return False
        for number, kind in hits.items():
            sites.functions.setdefault(number, pattern)
            sites.declared_kinds.setdefault(kind, pattern)
        return self._note(sites, pattern, True, self._place_of(self.calls[min(hits)][1]))

    def _line(self, sites: Sites, pattern: str) -> bool:
        """Find the calls of a line: values that enter them from elsewhere enter a block."""
        calls = (e for e in self.recorder.events if e.name not in _OF_GRAPHS)
        events = [e for e in calls if self._names(pattern, e.place(self.names))]
        made = {id(output) for event in events for output in event.outputs}
        hits = [e for e in events if any(id(t) not in made and t.requires_grad for t in e.inputs)]
        for event in events if hits else ():
            sites.calls.setdefault(event.index, pattern)
        place = hits[0].place(self.names) if hits else Place()
        return self._note(sites, pattern, bool(hits), place)

    def _note(self, sites: Sites, pattern: str, is_found: bool, place: Place) -> bool:
        if is_found:
            sites.places.setdefault(pattern, place)
        return is_found

    def _parameters_of(self, module: nn.Module) -> set[str]:
        own = {id(parameter) for parameter in module.parameters()}
        return {n for n, p in self.subject.parameters.items() if id(p) in own}

    def _names(self, pattern: str, place: Place, lines: Sequence[str] = ()) -> bool:
        """Return whether a pattern names a place; the name of a module is not part of a line."""
        if any(is_name(pattern, path) for path in self.modules):
            return is_name(pattern, (place.module or "").split(" (")[0])
        own = texts_of(place.around) if self.looks_around else at(place)[1]
        return is_part(pattern, [*own, *lines])

    def _place_of(self, stack: Stack) -> Place:
        module = next((self.names[owner] for owner in stack.owners if owner in self.names), None)
        line = text_of(stack.position) if stack.position else None
        return Place(module, line, around=stack.around)


def _lines_of(kind: Any) -> list[str]:  # noqa: ANN401
    """Return the lines of a class, each as `file:line: code`."""
    try:
        source, first = inspect.getsourcelines(kind)
        file = inspect.getsourcefile(kind) or ""
    except (OSError, TypeError):
        return []
    return [text_of((file, first + number)) for number in range(len(source))]
