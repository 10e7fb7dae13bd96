"""What a tool says of a case."""

from dataclasses import dataclass


class Wrong(Exception):
    """A tool says that something is wrong."""


class NotApplicable(Exception):
    """A tool cannot be asked about a case."""


@dataclass(frozen=True)
class Verdict:
    """The answer of one tool to one case.

    Attributes:
        alarm: whether the tool said that something is wrong; None where it could not be asked.
        line: whether its words name the line at fault; None where no line is to be named.
        seconds: of the processor.
        words: the end of what it said.
    """

    alarm: bool | None
    line: bool | None
    seconds: float
    words: str
