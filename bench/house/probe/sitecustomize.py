"""Writes down each call of a project's function, in every process with this folder on its path.

A line is: time, process, thread, how many of the project's frames are below, path, function, and
whether it was called anew (1) or resumed after an `await` (0).
"""

import dis
import os
import sys
import threading
import time
from functools import cache
from types import CodeType, FrameType

_ROOT = os.environ.get("HOUSE_ROOT", "")
_depths: dict[int, int] = {}


@cache
def _path(file: str) -> str:
    is_ours = file.startswith(f"{_ROOT}/") and "/.venv/" not in file
    return file[len(_ROOT) + 1 :] if is_ours else ""


@cache
def _start(code: CodeType) -> int:
    """Return the offset at which a function begins; it resumes after an `await` elsewhere."""
    found = (each.offset for each in dis.get_instructions(code) if each.opname == "RESUME")
    return next(found, 0)


def _note(frame: FrameType, event: str, _: object) -> None:
    path = _path(frame.f_code.co_filename)
    if not path or event not in ("call", "return"):
        return
    thread = threading.get_ident()
    depth = _depths.get(thread, 0)
    _depths[thread] = max(0, depth + (1 if event == "call" else -1))
    if event == "call":
        is_new = int(frame.f_lasti <= _start(frame.f_code))
        words = (time.monotonic_ns(), os.getpid(), thread, depth, path)
        line = " ".join(map(str, (*words, frame.f_code.co_qualname, is_new)))
        os.write(_output, f"{line}\n".encode())


if _ROOT:
    _output = os.open(os.environ["HOUSE_TRACE"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    threading.setprofile(_note)
    sys.setprofile(_note)
