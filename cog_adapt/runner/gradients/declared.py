"""Stop-gradients that the caller declares: by module, by parameter, or by line."""

import re
from collections.abc import Iterable, Sequence

from cog_adapt.runner.gradients.examination import Examination
from cog_adapt.runner.gradients.report import Place, count, some


class DeclaredStops:
    """The caller's `stop_gradients`, and which of them were found.

    Args:
        patterns: each a regex of whole module paths or parameter names, or a part of the line
            (`file:line: code`) that stops the gradient.
    """

    def __init__(self, patterns: Sequence[str] = ()) -> None:
        self.patterns = tuple(patterns)
        self.found: set[str] = set()

    @property
    def are_missing(self) -> bool:
        """Whether some were not found."""
        return self.found != set(self.patterns)

    def admits(self, place: Place) -> bool:
        """Return whether a stop at this place is declared; if so it counts as found."""
        path = (place.module or "").split(" (")[0]
        lines = [line for line in (place.line, place.inside) if line]
        hits = {p for p in self.patterns if path and is_name(p, path) or is_part(p, lines)}
        self.found |= hits
        return bool(hits)

    def names(self, parameters: Iterable[str]) -> list[str]:
        """Return the parameters that are declared by their own names; they count as found."""
        hits = {n: {p for p in self.patterns if is_name(p, n)} for n in parameters}
        self.found |= set().union(*hits.values())
        return [name for name, patterns in hits.items() if patterns]

    def note(self, exam: Examination, names: list[str], place: Place) -> None:
        """Add the note about parameters whose gradient a declared stop takes, or a part of it."""
        exam.note(
            "stop-gradient",
            f"{count(names)} without a gradient, or without a part of it, as `stop_gradients` "
            f"declares: {some(names)}.",
            names,
            place.module,
            place.line,
        )

    def report_absent(self, exam: Examination) -> None:
        """Warn of declarations that nothing in the forward corresponds to."""
        absent = [pattern for pattern in self.patterns if pattern not in self.found]
        if absent:
            exam.warn(
                "stop-gradient",
                f"`stop_gradients` declares {some([repr(p) for p in absent])}, but no such stop "
                "was found. Take it out, or write the module's path, the parameter's name or a "
                "part of the line.",
            )


def is_name(pattern: str, name: str) -> bool:
    """Return whether a pattern is a regex of a whole name; a part of a line is seldom a regex."""
    try:
        return re.fullmatch(pattern, name) is not None
    except re.error:
        return False


def is_part(pattern: str, lines: Iterable[str]) -> bool:
    """Return whether a pattern is a part of a line `file:line: code`.

    A pattern without a colon is a part of the code or of the file: a module's path may be a number.
    """
    if ":" in pattern:
        return any(pattern in line for line in lines)
    parts = (line.split(":", 2) for line in lines)
    return any(pattern in part for file, *_, code in parts for part in (file, code))
