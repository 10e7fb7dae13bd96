"""The output written to descriptors 1 and 2 themselves: by C libraries and by programs.

The output passes through two pipes to the guard, a process that outlives the worker, so that the
last lines before a crash are kept. The guard writes each line as an entry of the server's own log.
"""

import codecs
import contextlib
import os
from typing import TextIO

from cog_adapt.server.worker.lines import Source
from cog_adapt.server.worker.server_log import ServerLog

_READ = 2**16
_SOURCES: tuple[Source, ...] = ("stdout", "stderr")


class RawOutput:
    """Two pipes, made before the fork of the process that reads them.

    Args:
        log_format: the format of the server's own log.

    Attributes:
        log: the stderr that this process shares with the front process.
    """

    def __init__(self, log_format: str) -> None:
        self.log: TextIO = os.fdopen(os.dup(2), "w", encoding="utf-8", errors="backslashreplace")
        self._log_format = log_format
        self._pipes = [os.pipe() for _ in _SOURCES]

    def take_descriptors(self) -> None:
        """Redirect descriptors 1 and 2 of this process into the pipes."""
        for number, (reader, writer) in enumerate(self._pipes, 1):
            os.dup2(writer, number)
            os.close(reader)
            os.close(writer)

    def reader(self) -> "RawReader":
        """Return the other process's end."""
        return RawReader([reader for reader, _ in self._pipes], self.log, self._log_format)


class RawReader:
    """Writes the output of the pipes to the server's own log.

    Args:
        pipes: of stdout and stderr.
        log: the server's own.
        log_format: its format.

    Attributes:
        descriptors: all that it needs.
        pipes: those that may have more output.
    """

    def __init__(self, pipes: list[int], log: TextIO, log_format: str) -> None:
        self._log = ServerLog(log, log_format)
        self._sources = dict(zip(pipes, _SOURCES, strict=True))
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = {pipe: decoder("backslashreplace") for pipe in pipes}
        self.descriptors = {*pipes, log.fileno()}
        self.pipes = set(pipes)

    def read(self, pipes: set[int]) -> None:
        """Pass on the present output."""
        for pipe in pipes:
            data = os.read(pipe, _READ)
            text = self._decoders[pipe].decode(data, final=not data)
            with contextlib.suppress(OSError):  # the reader of the log may have ended
                self._log.write(self._sources[pipe], text)
            if not data:
                self.pipes.remove(pipe)

    def close(self) -> None:
        """Pass on unfinished lines."""
        with contextlib.suppress(OSError):
            self._log.close()
