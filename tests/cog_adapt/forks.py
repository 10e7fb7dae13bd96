"""Programs that run in forks of one process, which has imported the server's front: a second less.

process = forked(SERVER, folder=folder, variables=os.environ, argv=["server"], stdout=log)
code = process.wait(20)
"""

import atexit
import contextlib
import functools
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
SERVER = "import runpy; runpy.run_module('server', run_name='__main__', alter_sys=True)"
DESCRIBE = "from cog_adapt.server.command.openapi import main as describe; describe()"
_STARTING = threading.Lock()
_SOURCE = Path(__file__).with_name("forking.py")
# The kernel ends the process when the thread that started it ends: a killed test run leaves none.
_SETPRIV = shutil.which("setpriv")
ENDS_WITH_US = [_SETPRIV, "--pdeathsig", "KILL"] if _SETPRIV else []


class ForkedProcess(subprocess.Popen[bytes]):
    """A program in a fork; it has what tests use of a process that Python has started."""

    def __init__(
        self, forking: "_Forking", pid: int, *, argv: Sequence[str], variables: Mapping[str, str]
    ) -> None:
        self.args = argv
        self.variables = dict(variables)  # the kernel shows those of the process that forked
        self.pid = pid
        self.returncode: int | None = None
        self._forking = forking
        self._ended = os.pidfd_open(pid)
        self._end = select.poll()
        self._end.register(self._ended, select.POLLIN)  # it can be read when the process has ended
        self._turn = threading.Lock()

    def poll(self) -> int | None:
        return self._within(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._within(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            signal.pidfd_send_signal(self._ended, sig)

    def _within(self, seconds: float | None) -> int | None:
        if self.returncode is None and self._end.poll(None if seconds is None else 1000 * seconds):
            with self._turn:
                if self.returncode is None:
                    self.returncode = self._forking.ask(wait=self.pid)
                    os.close(self._ended)
        return self.returncode


class _Forking:
    """The process that forks; it ends when this one closes the pipe, or has ended."""

    def __init__(self) -> None:
        self._turn = threading.Lock()  # an answer has no name of its order
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SOURCE.read_text()],
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        atexit.register(self._close)

    def ask(self, **order: object) -> int:
        """Send an order; return the number that answers it."""
        orders, answers = self._process.stdin, self._process.stdout
        assert orders
        assert answers
        with self._turn:
            orders.write(json.dumps(order) + "\n")
            return int(answers.readline())

    def _close(self) -> None:
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.communicate(timeout=10)


@functools.cache
def _started() -> _Forking:
    return _Forking()


def _forking() -> _Forking:
    with _STARTING:
        return _started()


def forked(
    program: str,
    *,
    folder: Path,
    variables: Mapping[str, str],
    stdout: Path,
    stderr: Path | None = None,
    argv: Sequence[str] = ("",),
    seconds: int = 0,
) -> ForkedProcess:
    """Start a program in a fork, as a session of its own.

    Args:
        program: source, to which `main` and `build` of the server's front are given.
        folder: where it runs; the first place of its path.
        variables: all of its environment.
        stdout: file to whose end its output goes.
        stderr: the same for its errors; None: the file of its output.
        argv: what it sees as its arguments.
        seconds: after which an alarm ends it; 0: never.
    """
    pid = _forking().ask(
        program=program,
        folder=str(folder),
        variables=dict(variables),
        stdout=str(stdout),
        stderr=str(stderr or stdout),
        argv=list(argv),
        seconds=seconds,
    )
    return ForkedProcess(_forking(), pid, argv=argv, variables=variables)
