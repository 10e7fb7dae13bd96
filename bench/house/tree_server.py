"""Runs the server of a tree as a process, with a client for it."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeVar

import httpx2

SECONDS = 120.0
FINAL = ("succeeded", "failed", "canceled")
ASYNC = {"Prefer": "respond-async"}
Value = TypeVar("Value")


@contextlib.contextmanager
def _ending(process: "subprocess.Popen[bytes]", log: IO[bytes]) -> Iterator[None]:
    """End the server in the end; after an error, print its output."""
    try:
        yield
    except BaseException:
        log.seek(0)
        sys.stderr.write(log.read().decode(errors="replace"))
        raise
    finally:
        end(process)


@dataclass(frozen=True)
class Server:
    """A server of a tree, and a client of it.

    Attributes:
        tree: the sources of `python -m server`.
        folder: its working directory.
        data: the folder of its DATA_DIR, `.data`, and its WEIGHTS_DIR, `weights`.
        predict: the reference of its predictor.
        key: the key that the client sends.
        env: additional variables.
    """

    tree: Path
    folder: Path
    data: Path
    predict: str
    key: str
    env: Mapping[str, str] = field(default_factory=dict)

    @contextlib.contextmanager
    def running(self) -> Iterator["Client"]:
        """Start the server, wait until it is ready, and end it afterwards."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        with tempfile.TemporaryFile() as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "server", "--host", "127.0.0.1"],
                cwd=self.folder,
                env=self._environment() | {"PORT": str(port)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            headers = {"Authorization": f"Bearer {self.key}"}
            url = f"http://127.0.0.1:{port}"
            with (
                _ending(process, log),
                httpx2.Client(base_url=url, headers=headers, timeout=SECONDS) as http,
            ):
                yield Client(process, http).until_ready()

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("COG_")}
        return kept | {
            "PYTHONPATH": str(self.tree),
            "COG_PREDICT_TYPE_STUB": self.predict,
            "DATA_DIR": str(self.data / ".data"),
            "WEIGHTS_DIR": str(self.data / "weights"),
            "EGRESS_ALLOW": "127.0.0.0/8",
            "RETENTION_DAYS": "100000",
            "OMP_NUM_THREADS": "1",
            "DEVICE": "cpu",
            **self.env,
        }


@dataclass(frozen=True)
class Client:
    """A client of a running server."""

    process: "subprocess.Popen[bytes]"
    http: httpx2.Client

    def until_ready(self) -> "Client":
        """Wait for setup; the server may be busy with recovered predictions."""

        def look() -> bool | None:
            if self.process.poll() is not None:
                raise RuntimeError("the server ended")
            with contextlib.suppress(httpx2.TransportError):
                status = self.ask("GET", "/health-check")["status"]
                if status in ("SETUP_FAILED", "DEFUNCT"):
                    raise RuntimeError(f"the server is {status}")
                return status in ("READY", "BUSY") or None
            return None

        wait_for(look)
        return self

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> Any:  # noqa: ANN401
        """Send a request, and return the JSON of its answer."""
        answer = self.http.request(method, path, json=body, headers=headers)
        if not answer.is_success:
            raise RuntimeError(f"{method} {path}: {answer.status_code} {answer.text}")
        return answer.json()

    def submit(
        self, id_: str, inputs: Mapping[str, object], kind: str = "predictions", **more: object
    ) -> None:
        """Start a run without waiting for its end."""
        self.ask("POST", f"/{kind}", {"id": id_, "input": inputs, **more}, **ASYNC)

    def record(self, id_: str, kind: str = "predictions") -> Any:  # noqa: ANN401
        """Return the record of a run."""
        return self.ask("GET", f"/{kind}/{id_}")

    def ended(self, id_: str, kind: str = "predictions") -> Any:  # noqa: ANN401
        """Wait for the end of a run. Return its record."""
        return wait_for(lambda: (r := self.record(id_, kind))["status"] in FINAL and r or None)

    def account(self, id_: str, kind: str = "predictions") -> dict[str, Any]:
        """Return everything that can be read about an ended run."""
        page = self.ask("GET", f"/{kind}?limit=1000")["results"]
        return {
            "record": self.record(id_, kind),
            "listed": next(one for one in page if one["id"] == id_),
            "events": self.http.get(f"/{kind}/{id_}/events").text,
            "deliveries": self.ask("GET", f"/{kind}/{id_}/deliveries")["results"],
        }

    def kill(self) -> None:
        """Kill the server and its workers with SIGKILL."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(SECONDS)


def wait_for(look: Callable[[], Value | None], seconds: float = SECONDS) -> Value:
    """Call `look` until it returns something other than None. Return that."""
    deadline = time.monotonic() + seconds
    while (value := look()) is None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"nothing within {seconds} s")
        time.sleep(0.02)
    return value


def end(process: "subprocess.Popen[bytes]") -> None:
    """Send SIGTERM, and SIGKILL to the whole group if that is not enough."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(20.0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(20.0)
