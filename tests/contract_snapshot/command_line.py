"""The command line: each command's usage, its options with defaults, and help's first line."""

import contextlib
import io
import os
import re
from collections.abc import Callable, Iterator
from unittest.mock import patch

from cog_adapt import run, serve

_PLAIN = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
_SECTION = re.compile(r"^(\w[\w ]*):$")
_PROGRAM = re.compile(r"(?<=^Usage: ).*?(?=\[OPTIONS\])")  # how this process was started
_COMMAND = re.compile(r"^ {2}([a-z]+) ")
_DEEP = 6  # spaces; what is indented by more continues the line above


def command_line() -> Iterator[str]:
    """Yield each line of `--help` once, with the commands that print it before it."""
    titles: dict[str, list[str]] = {}
    server = _lines("python -m server", shown(lambda: serve(["--help"])))
    for title, line in (*server, *_of("cog-adapt", ())):
        titles.setdefault(line, []).append(title)
    for line, named in titles.items():
        yield f"{', '.join(named)} | {line}"


def _of(title: str, command: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    text = shown(lambda: run([*command, "--help"]))
    yield from _lines(title, text)
    is_top = not command
    for name in _commands(text, is_top=is_top):
        yield from _of(f"{title} {name}", (*command, name))


def shown(show: Callable[[], None]) -> str:
    """Return what a call writes to a plain output of 100 columns until it ends the process."""
    written = io.StringIO()
    with (
        patch.dict(os.environ, _PLAIN),
        contextlib.redirect_stdout(written),
        contextlib.suppress(SystemExit),
    ):
        show()
    return written.getvalue()


def _commands(text: str, *, is_top: bool) -> list[str]:
    listed = text if is_top else text.partition("\nCommands:\n")[2]
    return [found[1] for line in listed.splitlines() if (found := _COMMAND.match(line))]


def _lines(title: str, text: str) -> Iterator[tuple[str, str]]:
    """Join what was wrapped; a command's whole text is for readers, so one line of it counts."""
    joined: list[str] = []
    for line in filter(str.strip, text.splitlines()):
        if joined and line.startswith(" " * _DEEP):
            joined[-1] += f" {line.strip()}"
        else:
            joined.append(line)
    prose = [line for line in joined if not line.startswith("  -") and not _SECTION.match(line)]
    options = [line for line in joined if line.startswith("  -") and "--help" not in line]
    for line in (*prose[:2], *options):
        yield title, " ".join(_PROGRAM.sub("", line).split())
