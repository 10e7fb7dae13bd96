"""Bounds how slowly bytes may arrive from callers and their servers."""

from typing import Final

MIN_BYTES_PER_SECOND: Final = 1024


class Pace:
    """The silence that a sender may still keep: at first one pause, and never more.

    Bytes sent long ago earn nothing, so a sender that falls silent, or drips, is cut off after a
    pause, however much it has sent.

    Args:
        pause_seconds: of the longest silence.

    Attributes:
        left: seconds of silence that remain; each byte earns some.
    """

    def __init__(self, pause_seconds: float) -> None:
        self._most = self.left = pause_seconds

    def note(self, waited: float, size: int) -> None:
        """Record that so many bytes came after so many seconds."""
        self.left = min(self._most, self.left - waited + size / MIN_BYTES_PER_SECOND)
