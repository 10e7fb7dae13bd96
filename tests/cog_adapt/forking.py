"""A process that has imported the server's front, and forks for each program it is sent.

`tests.cog_adapt.forks` starts it with the source of this file, so that `__main__` of a fork is what
the fork's program makes of it.
"""

import ctypes
import gc
import json
import os
import signal
import sys
from typing import Any

import cog_adapt.server.command.openapi
import cog_adapt.server.main
import server.app

NAMES = {"main": cog_adapt.server.main, "build": server.app.build}
_PR_SET_PDEATHSIG = 1


def _fork(order: dict[str, Any]) -> int:
    """Start a program in a fork; return the fork's process id."""
    child = os.fork()
    if child:
        return child
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.alarm(order["seconds"])
    os.setsid()
    os.chdir(order["folder"])
    sys.path[0] = order["folder"]
    sys.argv = order["argv"]
    os.environ.clear()
    os.environ.update(order["variables"])
    for number, path in enumerate(("/dev/null", order["stdout"], order["stderr"])):
        os.dup2(os.open(path, os.O_CREAT | os.O_APPEND | os.O_RDWR), number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    exec(order["program"], dict(NAMES))
    sys.exit()


if __name__ == "__main__":
    gc.collect()
    gc.freeze()  # the forks share what is not walked
    for line in sys.stdin:
        order = json.loads(line)
        answer = (
            _fork(order)
            if "program" in order
            else os.waitstatus_to_exitcode(os.waitpid(order["wait"], 0)[1])
        )
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()
