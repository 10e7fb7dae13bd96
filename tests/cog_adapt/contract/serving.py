"""Starts coglet or the mirror in a folder, in one way for all flavours.

    with serving("coglet", folder, predict="actions.py:Predictor") as server:
        server.post("/predictions", {"input": {"text": "hello"}})

Flavours: `coglet` is `python -m cog.server.http`; `mirror-strict` is `python -m server` with
STRICT_COG=1; `mirror` is the same without it.
"""

import contextlib
import functools
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx2

from tests.cog_adapt.contract.servers import ANSWER_SECONDS, Server
from tests.cog_adapt.forks import DESCRIBE, ENDS_WITH_US, REPOSITORY, SERVER, forked

FLAVOURS = ("coglet", "mirror-strict", "mirror")
PREDICTORS = Path(__file__).parent / "predictors"
READY_SECONDS = 60.0
STOP_SECONDS = 20.0


@contextlib.contextmanager
def serving(
    flavour: str,
    folder: Path,
    *,
    predict: str | None,
    train: str | None = None,
    env: Mapping[str, str] | None = None,
    flags: Sequence[str] = (),
    until: str | None = "READY",
    schema: bool = True,
    port: int | None = None,
) -> Iterator[Server]:
    """Start a server in a folder that has the predictors in it, and stop it at the end.

    Args:
        flavour: one of FLAVOURS.
        folder: where it runs.
        predict: reference of the predictor.
        train: reference of the training function.
        env: variables on top of those of this process.
        flags: of the command line.
        until: the health to wait for; None does not wait.
        schema: whether coglet gets the schema that `cog build` would bundle.
        port: to listen on; None: a free one.
    """
    for source in PREDICTORS.glob("*.py"):
        shutil.copy(source, folder)
    if flavour == "coglet" and schema:
        bundled = folder / ".cog" / "openapi_schema.json"
        bundled.parent.mkdir(exist_ok=True)
        bundled.write_text(_schema(predict or "", train))
    stubs = {"COG_PREDICT_TYPE_STUB": predict, "COG_TRAIN_TYPE_STUB": train}
    environment = environment_of(flavour, folder) | {k: v for k, v in stubs.items() if v}
    environment |= dict(env or {})
    process, url, log = _start(flavour, folder, environment, flags, port or free_port())
    with httpx2.Client(timeout=ANSWER_SECONDS, trust_env=False) as client:
        server = Server(flavour, folder, url, log, process, client)
        try:
            if until is not None:
                wait_until(server, until)
            yield server
        finally:
            stop(process)


@functools.cache
def _schema(predict: str, train: str | None) -> str:
    """What `cog build` would bundle."""
    with tempfile.TemporaryDirectory() as folder:
        for source in PREDICTORS.glob("*.py"):
            shutil.copy(source, folder)
        files = {name: Path(folder) / name for name in ("openapi.json", "describing.log")}
        stubs = {"COG_PREDICT_TYPE_STUB": predict, "COG_TRAIN_TYPE_STUB": train or ""}
        process = forked(
            DESCRIBE,
            folder=Path(folder),
            variables=environment_of("coglet", Path(folder)) | stubs,
            argv=["openapi", "--output", str(files["openapi.json"])],
            stdout=files["describing.log"],
        )
        assert process.wait(READY_SECONDS) == 0, files["describing.log"].read_text()
        return files["openapi.json"].read_text()


def environment_of(flavour: str, folder: Path) -> dict[str, str]:
    """The variables of this process without Cog's, and those of a flavour."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COG_")}
    # coglet starts its worker as `python`, which has to be the one with cog in it.
    kept["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    kept["PYTHONPATH"] = str(REPOSITORY)
    kept["OMP_NUM_THREADS"] = "1"
    if flavour != "coglet":
        kept |= {"EGRESS_ALLOW": "127.0.0.0/8", "DATA_DIR": str(folder / ".data")}
    if flavour == "mirror-strict":
        kept["STRICT_COG"] = "1"
    return kept


def _start(
    flavour: str,
    folder: Path,
    environment: Mapping[str, str],
    flags: Sequence[str],
    port: int,
) -> tuple[subprocess.Popen[bytes], str, Path]:
    arguments = ["--host", "127.0.0.1", *flags]
    log = folder / f"server-{port}.log"
    variables = {**environment, "PORT": str(port)}
    url = f"http://127.0.0.1:{port}"
    is_ours = environment["PYTHONPATH"] == str(REPOSITORY) and not (folder / "server").exists()
    if flavour != "coglet" and is_ours:
        log.unlink(missing_ok=True)
        argv = ["server", *arguments]
        return forked(SERVER, folder=folder, variables=variables, stdout=log, argv=argv), url, log
    module = "cog.server.http" if flavour == "coglet" else "server"
    command = [*ENDS_WITH_US, sys.executable, "-m", module, *arguments]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return process, url, log


# A port that the kernel chose could be another's before the server listens: each test process has
# its own, below those that the kernel gives to connections.
_PROCESS = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_FIRST = 10_000 + 5_000 * (_PROCESS % 11)  # ports end at 65,535
_PORTS = itertools.cycle(range(_FIRST, _FIRST + 5_000))


def free_port() -> int:
    """A port that nothing listens on now."""
    return next(port for port in _PORTS if _is_free(port))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def wait_until(server: Server, wanted: str) -> None:
    """Wait for a health; `up` is any."""
    deadline = time.monotonic() + READY_SECONDS
    health: dict[str, Any] = {"status": "no answer"}
    while True:
        with contextlib.suppress(httpx2.TransportError):
            health = server.health()
        if health["status"] == wanted or (wanted == "up" and health["status"] != "no answer"):
            return
        ended = server.process.poll() is not None
        final = health["status"] == "SETUP_FAILED"
        if ended or final or time.monotonic() > deadline:
            raise AssertionError(f"not {wanted}: {health}\n{server.text()}")
        time.sleep(0.03)


def stop(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, and SIGKILL to all of its group when that is not enough."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(STOP_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(STOP_SECONDS)
