"""Starts a server for one run: a child process on a free port of the loopback interface.

The server has its own folder for records and a secret key, both removed afterwards.
"""

import contextlib
import os
import signal
import site
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from cog_adapt.client import Client, Unreachable
from cog_adapt.server.errors import UnavailableError
from cog_adapt.server.middleware.keys import make_key
from cog_adapt.server.protocol import Kind

_PACKAGES = Path(__file__).parents[3]
STOP_SECONDS = 20.0
_LOG_LINES = 30
_PAUSE = 0.1  # s between health checks while the server starts


class LocalClient(Client):
    """A client of a server that was started for it.

    Args:
        url: the server's root.
        key: its key.
        check_process: raises if the server has ended.
    """

    def __init__(self, url: str, key: str, check_process: Callable[[], None]) -> None:
        super().__init__(url, key)
        self._check_process = check_process

    def wait_until_ready(self, seconds: float = 300.0, pause: float = _PAUSE) -> None:
        """Wait as `Client` does, from before the server listens.

        Raises:
            UnavailableError: the server has ended; the message ends with its log.
        """
        while True:
            self._check_process()
            try:
                return super().wait_until_ready(seconds, pause)
            except Unreachable:
                time.sleep(pause)


@contextlib.contextmanager
def local_server(kind: Kind, variables: Mapping[str, str]) -> Iterator[LocalClient]:
    """Start a server in the working directory, and stop it at the end.

    Args:
        kind: the kind of run that the server serves.
        variables: environment variables in addition to this process's.

    Raises:
        UnavailableError: the server ended; the message ends with its log.
    """
    with tempfile.TemporaryDirectory(prefix="server-") as name:
        folder = Path(name)
        port = free_port()
        key, line = make_key("command", ("predict", "train"))
        (folder / "keys").write_text(f"{line}\n")
        process = _start(kind, folder, {**server_environment(folder, port), **variables})
        client = LocalClient(f"http://127.0.0.1:{port}", key, lambda: _check(process, folder))
        try:
            yield client
            _stop(process)
        except (UnavailableError, Unreachable):
            _check(process, folder)
            raise
        finally:
            client.close()
            _kill(process)


def free_port() -> int:
    """Return a port of the loopback interface that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def server_environment(folder: Path, port: int) -> dict[str, str]:
    """Return this process's variables, with other records, limits and keys."""
    return {
        **os.environ,
        **python_path(),
        "PORT": str(port),
        "DATA_DIR": str(folder / "data"),
        "DATABASE_URL": f"sqlite:///{folder / 'records.sqlite'}",
        "API_KEYS_FILE": str(folder / "keys"),
        "RATE_LIMIT": "100000/second",
        "STRICT_COG": "0",
        "LOG_FORMAT": "console",
    }


def python_path() -> dict[str, str]:
    """Return a PYTHONPATH that has the package, unless it is installed.

    An installed package needs none, and its folder ahead of Python's own could hide modules.
    """
    if str(_PACKAGES) in (*site.getsitepackages(), site.getusersitepackages()):
        return {}
    path = os.pathsep.join(filter(None, (str(_PACKAGES), os.environ.get("PYTHONPATH"))))
    return {"PYTHONPATH": path}


def _start(kind: Kind, folder: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "cog_adapt", "serve", "--host", "127.0.0.1"]
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [*command, "--x-mode", kind],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            # Ctrl-C reaches only this process, which cancels the run before it stops the server
            start_new_session=True,
        )


def _check(process: subprocess.Popen[bytes], folder: Path) -> None:
    if process.poll() is None:
        return
    lines = (folder / "log").read_text(errors="replace").splitlines()[-_LOG_LINES:]
    raise UnavailableError(
        "\n".join([f"the server ended with exit code {process.returncode}. Its log:", *lines])
    )


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(STOP_SECONDS)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the rest of the server: itself, the worker, and processes that the model started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
