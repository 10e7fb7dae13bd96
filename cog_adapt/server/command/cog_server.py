"""Starts and drives Cog's real server (coglet), for examples, tests and benchmarks.

    write_schema(folder, predict="predict.py:Predictor")
    with cog_server(folder, predict="predict.py:Predictor") as server:
        response = server.post("/predictions", {"input": {"text": "hello"}})

The folder is the server's working directory, where references and `.cog/openapi_schema.json` are
looked up. The server's output goes to `.cog/coglet-predict.log` (or `-train`), so a folder can have
one server of each mode.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import httpx2

from cog_adapt.server.command.local_server import free_port, python_path

PORT_ATTEMPTS = 3
BUSY_ATTEMPTS = 40
BUSY_PAUSE = 0.05
STOP_SECONDS = 20.0
ANSWER_SECONDS = 1800.0  # a training is answered only at its end
# coglet logs this, and becomes READY nevertheless
NO_VALIDATION = "Failed to compile input schema validator"


class ServerStartError(Exception):
    """coglet did not become READY; the message ends with its log."""


class _PortTakenError(Exception):
    """Another process took the port between its choice and its use."""


@dataclass(frozen=True)
class CogServer:
    """A running coglet server.

    Attributes:
        url: the server's root, without a slash at the end.
        log: the file of its standard output and error.
        process: the server's own process, for tests of signals.
    """

    url: str
    log: Path
    process: subprocess.Popen[bytes]
    client: httpx2.Client

    def request(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> httpx2.Response:
        """Send one request, and read the response whole, even a stream."""
        return self.client.request(method, self.url + path, json=body, headers=headers)

    def get(self, path: str) -> httpx2.Response:
        """Send a GET."""
        return self.request("GET", path)

    def post(
        self,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        *,
        busy_attempts: int = BUSY_ATTEMPTS,
    ) -> httpx2.Response:
        """Send a POST, again while the answer is 409, at most `busy_attempts` times.

        coglet frees a slot only after it has answered, so a client that sends one request after
        another sometimes gets 409. A test of 409 itself makes one attempt.
        """
        for _ in range(busy_attempts - 1):
            response = self.request("POST", path, body=body, headers=headers)
            if response.status_code != 409:
                return response
            time.sleep(BUSY_PAUSE)
        return self.request("POST", path, body=body, headers=headers)

    def stream(
        self, path: str, body: object, headers: Mapping[str, str] | None = None
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Send a POST, and yield the response's server-sent events as they come: (event, data)."""
        accept = {"Accept": "text/event-stream", **(headers or {})}
        with self.client.stream("POST", self.url + path, json=body, headers=accept) as response:
            for event in httpx2.EventSource(response, max_event_size=None):
                data: Any = event.json()
                yield event.event, data

    def kill(self) -> None:
        """Kill the worker and the server with SIGKILL, as abruptly as a power cut."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        for worker in children.read_text().split():
            os.kill(int(worker), signal.SIGKILL)
        self.process.kill()
        self.process.wait(STOP_SECONDS)

    def health(self) -> dict[str, Any]:
        """Return the answer of /health-check."""
        answer: dict[str, Any] = self.get("/health-check").json()
        return answer


def write_schema(
    folder: Path, *, predict: str, train: str | None = None, env: Mapping[str, str] | None = None
) -> Path:
    """Write `.cog/openapi_schema.json` in the folder, as `cog build` would."""
    path = folder / ".cog" / "openapi_schema.json"
    subprocess.run(
        [sys.executable, "-m", "cog_adapt.server.command.openapi", "--output", str(path)],
        cwd=folder,
        env=_environment(predict, train, env or {}),
        check=True,
    )
    return path


@contextlib.contextmanager
def cog_server(  # noqa: PLR0913 - what an image's environment says
    folder: Path,
    *,
    predict: str,
    train: str | None = None,
    env: Mapping[str, str] | None = None,
    mode: Literal["predict", "train"] = "predict",
    ready_seconds: float = 120.0,
    until: str = "READY",
) -> Iterator[CogServer]:
    """Start coglet in a folder, wait until it is READY, and stop it at the end.

    Args:
        folder: the server's working directory.
        predict: the reference of the predictor, such as `predict.py:Predictor`.
        train: the reference of the training function.
        env: variables in addition to those of this process.
        mode: `train` runs the training function at /trainings.
        ready_seconds: how long setup may take.
        until: the health to wait for.

    Raises:
        ServerStartError: the server ended, failed in setup, took longer, or checks no input.
    """
    environment = _environment(predict, train, env or {})
    log = folder / ".cog" / f"coglet-{mode}.log"
    log.parent.mkdir(exist_ok=True)
    with contextlib.ExitStack() as stack:
        start = partial(_started, folder, environment=environment, mode=mode, log=log)
        yield _on_a_free_port(stack, start, partial(_wait_until, until, seconds=ready_seconds))


def _on_a_free_port(
    stack: contextlib.ExitStack,
    start: Callable[[], AbstractContextManager[CogServer]],
    wait: Callable[[CogServer], None],
) -> CogServer:
    for _ in range(PORT_ATTEMPTS):
        server = stack.enter_context(start())
        with contextlib.suppress(_PortTakenError):
            wait(server)
            return server
    raise ServerStartError(_with_log("no free port", server.log))


def _environment(predict: str, train: str | None, env: Mapping[str, str]) -> dict[str, str]:
    """Return this process's variables, except those that configure Cog, and the given ones."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COG_")}
    # coglet starts its worker as `python`, which must be an interpreter with cog installed.
    kept["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    stubs = {"COG_PREDICT_TYPE_STUB": predict} | ({"COG_TRAIN_TYPE_STUB": train} if train else {})
    return kept | python_path() | stubs | dict(env)


@contextlib.contextmanager
def _started(
    folder: Path, environment: Mapping[str, str], mode: str, log: Path
) -> Iterator[CogServer]:
    port = free_port()
    command = [sys.executable, "-m", "cog.server.http", "--host", "127.0.0.1", "--x-mode", mode]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**environment, "PORT": str(port)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        with httpx2.Client(timeout=ANSWER_SECONDS, trust_env=False) as client:
            yield CogServer(url=f"http://127.0.0.1:{port}", log=log, process=process, client=client)
    finally:
        end_process(process)


def _wait_until(wanted: str, server: CogServer, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while True:
        health = _health_of(server)
        _check_process(server)
        if health["status"] == wanted:
            break
        if health["status"] == "SETUP_FAILED" or time.monotonic() > deadline:
            raise ServerStartError(_with_log(f"{health} after {seconds} s at most", server.log))
        time.sleep(0.05)
    if NO_VALIDATION in health["setup"].get("logs", ""):
        raise ServerStartError(_with_log("it would check no input at all", server.log))


def _health_of(server: CogServer) -> dict[str, Any]:
    """Return the server's health, with the status None while nothing answers."""
    try:
        return server.health()
    except httpx2.TransportError:
        return {"status": None}


def _check_process(server: CogServer) -> None:
    if server.process.poll() is None:
        return
    if "Address already in use" in server.log.read_text(errors="replace"):
        raise _PortTakenError
    raise ServerStartError(_with_log(f"ended: {server.process.returncode}", server.log))


def _with_log(message: str, log: Path) -> str:
    return f"coglet: {message}. Its log:\n{log.read_text(errors='replace')[-8000:]}"


def end_process(process: subprocess.Popen[bytes]) -> None:
    """Terminate a process; kill its group if it has not ended after `STOP_SECONDS`."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        # coglet waits for open requests without limit; the group is the server and its worker.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(STOP_SECONDS)
