"""Replaces the worker's sys.stdout and sys.stderr, and sorts printed text.

Text goes to the prediction that the printing code belongs to; during setup, to the front process
and to the server's own log; else only to the server's own log.
"""

import io
import logging
import os
import sys
from collections.abc import Iterable
from typing import Any, BinaryIO, TextIO

from cog_adapt.server.protocol import SetupLog
from cog_adapt.server.worker.active import Send, find_active
from cog_adapt.server.worker.lines import Lines, Source
from cog_adapt.server.worker.server_log import ServerLog


class _Progress(logging.StreamHandler[TextIO]):
    """Prints the lines of `cog_adapt.setup`, unless the user's code has configured logging."""

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.root.handlers:
            self.stream = sys.stderr  # the captured one
            super().emit(record)


def print_progress() -> None:
    """Print the progress of a setup: the model's loading, and the self-test's seconds."""
    logger = logging.getLogger("cog_adapt.setup")
    logger.setLevel(logging.INFO)
    logger.addHandler(_Progress())


class SetupOutput:
    """The text printed until setup() has ended."""

    def __init__(self, send: Send, log: ServerLog) -> None:
        self._send_report = send
        self._log = log
        self.lines = Lines(self._send)
        self.has_ended = False

    def end(self) -> None:
        """Pass on the unterminated last line too."""
        self.lines.close()
        self._log.close()
        self.has_ended = True

    def _send(self, source: Source, text: str) -> None:
        self._send_report(SetupLog(source, text))
        self._log.write(source, text)
        self._log.flush(source)


class CapturedStream(io.TextIOBase):
    """A text stream that passes each written text to the prediction whose code wrote it."""

    def __init__(
        self, source: Source, original: TextIO, setup: SetupOutput, log: ServerLog
    ) -> None:
        self._source = source
        self._original = original
        self._setup = setup
        self._log = log
        self._bytes = _Bytes(self)
        self._process = os.getpid()
        self.mode = "w"

    def write(self, text: str) -> int:
        """Pass on the text."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self._owner().write(self._source, text)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:  # type: ignore[override]
        """Pass on all the texts."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Pass on an unfinished line too."""
        self._owner().flush(self._source)

    def _owner(self) -> Lines | ServerLog:
        if os.getpid() != self._process:  # forked: the connection belongs to the parent
            return self._log
        active = find_active()
        if active is not None:
            return active.lines
        return self._log if self._setup.has_ended else self._setup.lines

    @property
    def buffer(self) -> BinaryIO:
        """The same stream for bytes."""
        return self._bytes  # type: ignore[return-value]

    @property
    def name(self) -> str:
        """The name of the replaced stream."""
        return f"<{self._source}>"

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Always UTF-8."""
        return "utf-8"

    @property
    def errors(self) -> str:  # type: ignore[override]
        """The way in which bytes that are not UTF-8 are read."""
        return "backslashreplace"

    def fileno(self) -> int:
        """Return the descriptor of the replaced stream, the server's own output."""
        return self._original.fileno()

    def isatty(self) -> bool:
        """Return False, because a log is no terminal."""
        return False

    def writable(self) -> bool:
        """Return True."""
        return True

    def reconfigure(self, **_options: Any) -> None:  # noqa: ANN401 - as io.TextIOWrapper
        """Accept a call that has no effect: there is nothing to configure."""

    def close(self) -> None:
        """Do nothing: the stream belongs to the process."""


class _Bytes(io.RawIOBase):
    def __init__(self, text: CapturedStream) -> None:
        self._text = text

    def write(self, data: Any) -> int:  # noqa: ANN401 - any buffer
        content = bytes(data)
        self._text.write(content.decode("utf-8", "backslashreplace"))
        return len(content)

    def flush(self) -> None:
        self._text.flush()

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._text.fileno()

    def close(self) -> None:
        """Do nothing: the stream belongs to the process."""


def capture_output(send: Send, stream: TextIO, log_format: str) -> SetupOutput:
    """Install the streams; their text goes to setup until that ends, and to `stream`."""
    log = ServerLog(stream, log_format)
    setup = SetupOutput(send, log)
    sys.stdout = CapturedStream(source="stdout", original=sys.stdout, setup=setup, log=log)
    sys.stderr = CapturedStream(source="stderr", original=sys.stderr, setup=setup, log=log)
    return setup
