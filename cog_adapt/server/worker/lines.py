"""Cuts printed text into whole lines."""

import threading
from collections.abc import Callable
from typing import Literal

Source = Literal["stdout", "stderr"]


class Lines:
    """Passes two streams on as whole lines, in the order in which the lines ended.

    Args:
        send: called with whole lines; a flush or the end passes on an unfinished line.
    """

    def __init__(self, send: Callable[[Source, str], None]) -> None:
        self._send = send
        self._begun: dict[Source, str] = {"stdout": "", "stderr": ""}
        self._lock = threading.Lock()

    def write(self, source: Source, text: str) -> None:
        """Accept text; the part after its last newline waits."""
        text = encodable(text)
        with self._lock:
            head, newline, tail = text.rpartition("\n")
            if newline:
                whole = self._begun[source] + head + newline
                self._begun[source] = tail
                self._send(source, whole)
            else:
                self._begun[source] += tail

    def flush(self, source: Source) -> None:
        """Pass on the waiting text: a progress bar, for example, never ends its line."""
        with self._lock:
            text, self._begun[source] = self._begun[source], ""
            if text:
                self._send(source, text)

    def close(self) -> None:
        """Pass on the waiting text of both streams."""
        self.flush("stdout")
        self.flush("stderr")


def encodable(text: str) -> str:
    """Return the text with lone surrogates, which cannot be encoded, as escapes."""
    if text.isascii():
        return text
    return text.encode(errors="backslashreplace").decode()
