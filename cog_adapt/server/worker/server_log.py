r"""Writes text printed outside of runs to the server's own log, an entry for each line.

A line that is rewritten after `\r`, such as a progress bar, is logged once, in its last state.
"""

import os
import threading
from typing import TextIO

from cog_adapt.server.telemetry.entries import escape_text, to_entry
from cog_adapt.server.worker.lines import Source, encodable

_MOST_CHARACTERS = 2**16  # characters of an entry; a longer line is cut into several


class ServerLog:
    """Writes to the log of the server, from any thread.

    Args:
        stream: the stderr that this process shares with the front process.
        log_format: `json`, or `console`: the printed text, without terminal controls.
    """

    def __init__(self, stream: TextIO, log_format: str) -> None:
        self._stream = stream
        self._is_json = log_format == "json"
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._begun: dict[Source, str] = {"stdout": "", "stderr": ""}

    def write(self, source: Source, text: str) -> None:
        """Accept text; the part after its last newline waits."""
        if self._process != os.getpid():  # a fork: a thread of the parent may hold the lock
            self._begin()
        with self._lock:
            if self._is_json:
                *lines, rest = (self._begun[source] + text).split("\n")
                self._begun[source] = self._cut(source, _last_state(rest))
                self._put(source, lines)
            else:
                self._stream.write(escape_text(encodable(text)))
            self._stream.flush()

    def flush(self, source: Source) -> None:
        """Write an unfinished line too, unless a progress bar wrote it."""
        if "\r" not in self._begun[source]:
            self._end(source)

    def close(self) -> None:
        """Write all waiting text."""
        self._end("stdout")
        self._end("stderr")

    def _end(self, source: Source) -> None:
        if self._begun[source]:
            self.write(source, "\n")

    def _cut(self, source: Source, rest: str) -> str:
        """Write an unfinished line that is too long to wait for its end."""
        if len(rest) < _MOST_CHARACTERS:
            return rest
        self._put(source, [rest])
        return ""

    def _put(self, source: Source, lines: list[str]) -> None:
        for line in map(_last_state, lines):
            text = line.strip("\r")
            for start in range(0, len(text) if text.strip() else 0, _MOST_CHARACTERS):
                piece = encodable(text[start : start + _MOST_CHARACTERS])
                self._stream.write(f"{to_entry(piece, source=source)}\n")


def _last_state(line: str) -> str:
    """Return the last state of a line that was rewritten after carriage returns."""
    return line[max(0, line.rstrip("\r").rfind("\r")) :]
