"""PostgreSQL, servers of one database and one folder of adapters, and HAProxy in front of them."""

import contextlib
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from bench.postgres import Cluster
from bench.serving_servers import models_of

REPOSITORY = Path(__file__).parents[2]
OWNERS = {"ada": "key-of-ada", "ben": "key-of-ben", "cyd": "key-of-cyd"}
SLOTS = 8
"""Predictions that run at once at each server; the others wait."""

_READY_SECONDS = 180.0
_PROXY_LOOKS = 100
_PROXY_SECONDS = 0.2
_HAPROXY = """
global
    maxconn 4096
defaults
    mode http
    timeout connect 2s
    timeout client 300s
    timeout server 300s
    option redispatch
    retries 3
    retry-on conn-failure
frontend clients
    bind 127.0.0.1:{port}
    default_backend servers
backend servers
    balance roundrobin
    option httpchk GET /readyz
    http-check expect status 200
    default-server check inter 500ms fall 1 rise 1
{servers}
"""


@dataclass
class Server:
    """One server, which can be killed and started again on its port.

    Attributes:
        port: on loopback.
        folder: of its log, and of its own data.
        environment: its variables.
    """

    port: int
    folder: Path
    environment: dict[str, str]
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        """The address for clients and for the other servers."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the server, or start it again; its log continues."""
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "server", "--host", "127.0.0.1"],
                cwd=REPOSITORY,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def has_ended(self) -> bool:
        """Return whether the front process has ended by itself."""
        return self.process is not None and self.process.poll() is not None

    def workers(self) -> list[int]:
        """Return the processes of its models."""
        assert self.process is not None
        return models_of(self.process.pid)

    def kill(self) -> None:
        """End the server as a power cut would; its workers end themselves then."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stand_still(self, seconds: float) -> None:
        """Stop all of its processes, as a paused machine does, and let them go on later."""
        assert self.process is not None
        processes = [self.process.pid, *self.workers()]
        for each in processes:
            os.kill(each, signal.SIGSTOP)
        time.sleep(seconds)
        for each in processes:
            os.kill(each, signal.SIGCONT)

    def stop(self) -> None:
        """End the server, and wait for its end."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()


@dataclass
class Fleet:
    """Servers of one database behind one proxy, from `start` to `stop`.

    Attributes:
        folder: of all files.
        count: the number of servers.
        variables: of each server; None: those of the storm, with keys and a log of steps.
    """

    folder: Path
    database: Cluster
    count: int = 3
    variables: dict[str, str] | None = None
    servers: list[Server] = field(default_factory=list)
    port: int = 0
    _proxy: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        """The proxy's address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def step_log(self) -> Path:
        """The log of gradient steps."""
        return self.folder / "steps"

    def start(self) -> None:
        """Start everything, and wait until all servers are ready.

        Raises:
            TimeoutError: a server is not ready in time.
        """
        lines = [
            f"{owner} predict,train {hashlib.sha256(key.encode()).hexdigest()}"
            for owner, key in OWNERS.items()
        ]
        (self.folder / "keys").write_text("\n".join(lines))
        self.step_log.touch()
        database = self.database.empty()
        for number in range(self.count):
            folder = self.folder / f"server-{number}"
            folder.mkdir()
            port = free_port()
            server = Server(port, folder, self._environment(port, folder, database))
            server.start()
            self.servers.append(server)
        self.until_ready()
        self.port = free_port()
        self._proxy = self._start_proxy()

    def _environment(self, port: int, folder: Path, database: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("COG_")}
        own = {
            "PORT": str(port),
            "SERVER_URL": f"http://127.0.0.1:{port}",
            "DATABASE_URL": database,
            "DATA_DIR": str(folder / "data"),
            "WEIGHTS_DIR": str(self.folder / "weights"),
            "PYTHONPATH": str(REPOSITORY),
            "OMP_NUM_THREADS": "1",
        }
        return kept | own | (self._of_storm() if self.variables is None else self.variables)

    def _of_storm(self) -> dict[str, str]:
        return {
            "API_KEYS_FILE": str(self.folder / "keys"),
            "EGRESS_ALLOW": "127.0.0.0/8",
            "COG_PREDICT_TYPE_STUB": "bench/storm/step_log.py:Predictor",
            "COG_TRAIN_TYPE_STUB": "bench/storm/step_log.py:Trainer",
            "STORM_STEPS": str(self.step_log),
            "MAX_CRASHES": "20",
            "COG_MAX_CONCURRENCY": str(SLOTS),
        }

    def _start_proxy(self) -> "subprocess.Popen[bytes]":
        program = shutil.which("haproxy") or "/usr/sbin/haproxy"
        servers = "\n".join(
            f"    server s{number} 127.0.0.1:{each.port}"
            for number, each in enumerate(self.servers)
        )
        place = self.folder / "haproxy.cfg"
        place.write_text(_HAPROXY.format(port=self.port, servers=servers))
        process = subprocess.Popen([program, "-db", "-f", str(place)], stdin=subprocess.DEVNULL)
        for _ in range(_PROXY_LOOKS):
            time.sleep(_PROXY_SECONDS)
            if is_ready(self.url):
                return process
        process.kill()
        raise TimeoutError("HAProxy finds no ready server")

    def until_ready(self) -> None:
        """Wait until all servers are ready.

        Raises:
            RuntimeError: a server has ended.
            TimeoutError: a server is not ready in time.
        """
        began = time.monotonic()
        while time.monotonic() < began + _READY_SECONDS:
            if any(each.has_ended() for each in self.servers):
                raise RuntimeError(f"a server has ended; its log is below {self.folder}")
            if all(is_ready(each.url) for each in self.servers):
                return
            time.sleep(0.2)
        raise TimeoutError(f"not all servers were ready after {_READY_SECONDS:g} s")

    def stop(self) -> None:
        """End everything that was started."""
        if self._proxy is not None:
            self._proxy.terminate()
            self._proxy.wait(10)
        for server in self.servers:
            server.stop()


def is_ready(url: str) -> bool:
    """Return whether a server answers at a URL, and is ready."""
    with contextlib.suppress(httpx2.HTTPError):
        return httpx2.get(f"{url}/readyz", timeout=5.0).status_code == 200
    return False


def free_port() -> int:
    """Return a port that no process listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
