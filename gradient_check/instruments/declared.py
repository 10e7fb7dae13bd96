"""Stop-gradients that the caller declares: by module, by parameter, or by line."""

import re
from collections.abc import Iterable, Sequence

from gradient_check.findings.examination import Examination
from gradient_check.findings.report import Place, count, some
from gradient_check.instruments.sources import texts_of

_EMPTY_GROUP = re.compile(r"(?<!\\)\(\)")


class DeclaredStops:
    """The caller's `stop_gradients`, and which of them were found.

    Args:
        patterns: each a regex of whole module paths or parameter names, or a part of the line
            (`file:line: code`) that stops the gradient, or of a call that leads to that line.
        names: module paths and parameter names; a pattern that matches one is not applied to lines.
    """

    def __init__(self, patterns: Sequence[str] = (), names: Iterable[str] = ()) -> None:
        self.patterns = tuple(patterns)
        self.found: set[str] = set()
        self._near: set[str] = set()
        self._of_names = {p for name in names for p in self.patterns if is_name(p, name)}

    @property
    def are_missing(self) -> bool:
        """Whether some patterns were not found."""
        return self.found != set(self.patterns)

    def admits_all(self, places: Sequence[Place]) -> list[bool]:
        """Return for each stop of a forward whether its own place, or one around it, is declared.

        A declaration that names the own places of some stops applies to these places alone, even if
        other lines look similar.
        """
        near = [self.admits(place) for place in places]
        return [
            own or self.admits(place, around=True) for own, place in zip(near, places, strict=True)
        ]

    def admits(self, place: Place, *, around: bool = False) -> bool:
        """Return whether a stop at this place is declared; if so it counts as found.

        Args:
            place: of the stop.
            around: examine the modules, calls and functions around the stop instead, for
                declarations that name no stop at its own place.
        """
        if not self.patterns:
            return False
        if around:
            apart = [pattern for pattern in self.patterns if pattern not in self._near]
            hits = self._named(apart, place.owners, texts_of(place.around) if apart else ())
        else:
            hits = self._named(self.patterns, *at(place))
            self._near |= hits
        self.found |= hits
        return bool(hits)

    def _named(
        self, patterns: Iterable[str], paths: Sequence[str], lines: Sequence[str]
    ) -> set[str]:
        """Return the patterns that name one of these modules, or a part of one of these lines."""
        plain = self._of_names
        return {
            pattern
            for pattern in patterns
            if any(is_name(pattern, path) for path in paths)
            or is_part(pattern, lines, as_regex=pattern not in plain)
        }

    def names(self, parameters: Iterable[str]) -> list[str]:
        """Return the parameters that are declared by name; their patterns then count as found."""
        hits = {n: {p for p in self.patterns if is_name(p, n)} for n in parameters}
        self.found |= set().union(*hits.values())
        return [name for name, patterns in hits.items() if patterns]

    def note(self, exam: Examination, names: list[str], place: Place) -> None:
        """Add the note about parameters whose gradient a declared stop takes, or a part of it."""
        exam.add(
            "NOTE",
            "stop-gradient",
            f"{count(names)} without a gradient, or without a part of it, as `stop_gradients` "
            f"declares: {some(names)}.",
            parameters=names,
            module=place.module,
            line=place.line,
        )

    def report_absent(self, exam: Examination) -> None:
        """Warn of declarations that match nothing in the forward."""
        absent = [pattern for pattern in self.patterns if pattern not in self.found]
        if absent:
            exam.add(
                "WARN",
                "stop-gradient",
                f"`stop_gradients` declares {some([repr(p) for p in absent])}, but no such stop "
                "was found. Remove the declaration, or write the module's path, the parameter's "
                "name or a part of the line.",
            )


def at(place: Place) -> tuple[list[str], list[str]]:
    """Return the module and the lines of a place itself: all lines of the statement there."""
    path = (place.module or "").split(" (")[0]
    lines = [line for line in (place.line, place.inside) if line]
    return [path] if path else [], lines + texts_of(place.around[:1])


def is_name(pattern: str, name: str) -> bool:
    """Return whether a pattern is a regex of a whole name; a part of a line is seldom a regex."""
    try:
        return re.fullmatch(pattern, name) is not None
    except re.error:
        return False


def is_part(pattern: str, lines: Iterable[str], *, as_regex: bool = True) -> bool:
    """Return whether a pattern is a part of a line `file:line: code`, as a text or as a regex.

    A pattern without a colon is a part of the code or of the file: a module's path may be a number.

    Args:
        pattern: the pattern.
        lines: the lines.
        as_regex: whether to search it as a regex too. A pattern with an empty group, `()`, is a
            call in plain code: as a regex, `loss()` would match wherever `loss` does.
    """
    lines = list(lines)
    if ":" not in pattern:
        parts = (line.split(":", 2) for line in lines)
        lines = [part for file, *_, code in parts for part in (file, code)]
    if any(pattern in line for line in lines):
        return True
    if not as_regex or _EMPTY_GROUP.search(pattern):
        return False
    try:
        return any(re.search(pattern, line) for line in lines)
    except re.error:
        return False
