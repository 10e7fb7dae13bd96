"""Starts of a server's front that are forks of one process, which has imported it once."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

REPOSITORY = Path(__file__).parents[3]

FORKING = """
import gc, json, os, signal, sys
import server.app
from cog_adapt.server import main

gc.collect()
gc.freeze()  # the forks share what is not walked
for line in sys.stdin:
    folder, program, variables = json.loads(line)
    child = os.fork()
    if not child:
        signal.alarm(60)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(variables)
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            os.dup2(os.open(name, os.O_CREAT | os.O_TRUNC | os.O_RDWR), number)
        exec(program, {"main": main, "build": server.app.build})
        sys.exit()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Ended(NamedTuple):
    """What a process left."""

    returncode: int
    stdout: str
    stderr: str


Start = Callable[..., Ended]
"""Runs a program of `main` and `build` in a folder, with the given variables besides our own."""


@pytest.fixture(scope="session")
def start() -> Iterator[Start]:
    """Runs programs in forks of a process that has imported the server's front."""
    with subprocess.Popen(
        [sys.executable, "-c", FORKING],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as process:
        orders, codes = process.stdin, process.stdout
        assert orders
        assert codes

        def run(folder: Path, program: str, **variables: str) -> Ended:
            stub = {"COG_PREDICT_TYPE_STUB": "x.py:X", "PORT": "0"}
            values = {**os.environ, **stub, **variables}
            orders.write(json.dumps([str(folder), program, values]) + "\n")
            code = int(codes.readline())
            return Ended(code, *((folder / name).read_text() for name in ("stdout", "stderr")))

        yield run
        orders.close()
