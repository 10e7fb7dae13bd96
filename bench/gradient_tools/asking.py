"""Runs one tool on one subject, in a process of its own.

A fault may switch modes, change a class or end the process; a fork of a process that has imported
everything costs some hundredths of a second, and leaves nothing behind.
"""

import importlib
import multiprocessing
import time
import traceback
import warnings
from multiprocessing.connection import Connection

import torch

from bench.gradient_tools.subjects import Subject
from bench.gradient_tools.tools import TOOLS
from bench.gradient_tools.verdicts import NotApplicable, Verdict, Wrong

_MOST_SECONDS = 30.0
_MOST_WORDS = 6000
_forks = multiprocessing.get_context("fork")


def prepare() -> None:
    """Import what a first optimizer and forward mode import (2 s), before any tool's process.

    No backward runs here: after one, torch refuses autograd in a fork on a machine with a GPU.
    """
    torch.optim.Adam([torch.zeros(1, requires_grad=True)])
    importlib.import_module("torch._decomp.decompositions_for_jvp")


def ask(subject: Subject, tool: str) -> Verdict:
    """Return a tool's verdict on a subject; a process that died or took too long gives none."""
    here, there = _forks.Pipe(duplex=False)
    process = _forks.Process(target=_answer, args=(subject, tool, there))
    process.start()
    there.close()
    try:
        if not here.poll(_MOST_SECONDS):
            return Verdict(None, None, _MOST_SECONDS, f"no answer in {_MOST_SECONDS:.0f} s")
        verdict: Verdict = here.recv()
    except EOFError:
        return Verdict(None, None, 0.0, "the process died")
    else:
        return verdict
    finally:
        process.kill()
        process.join()


def _answer(subject: Subject, tool: str, there: Connection) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        case = subject.make()
        began = time.process_time()
        alarm, words = _said(tool, case)
        seconds = time.process_time() - began
    words += "".join(f"\n{each.message}" for each in warned)
    line = None
    if subject.names_line is not None:
        line = bool(alarm) and subject.names_line(words)
    there.send(Verdict(alarm, line, seconds, words[-_MOST_WORDS:]))


def _said(tool: str, case: object) -> tuple[bool | None, str]:
    try:
        TOOLS[tool](case)  # type: ignore[arg-type] # a fault's case may be anything
    except Wrong as wrong:
        return True, str(wrong)
    except NotApplicable as reason:
        return None, str(reason)
    except Exception:  # noqa: BLE001 - what a loop raises is an alarm
        return True, traceback.format_exc()
    return False, ""
