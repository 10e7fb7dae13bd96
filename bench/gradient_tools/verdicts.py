"""What a tool says about a case."""

from dataclasses import dataclass


class Wrong(Exception):
    """A tool says that something is wrong."""


class NotApplicable(Exception):
    """A tool does not apply to a case."""


@dataclass(frozen=True)
class Verdict:
    """The answer of one tool to one case.

    Attributes:
        alarm: whether the tool said that something is wrong; None if the tool does not apply.
        line: whether its words name the line at fault; None if no line is to be named.
        seconds: CPU time.
        words: the end of its words.
    """

    alarm: bool | None
    line: bool | None
    seconds: float
    words: str
