"""Starts the servers that `bench.serving` compares, and moves them from core to core.

Each rival has its own environment below `.data/bench/venvs`, made once with pip.
"""

import contextlib
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import venv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cog_adapt.server.command.cog_server import cog_server, write_schema

REPOSITORY = Path(__file__).parent.parent
NOOP = Path(__file__).parent / "noop"
VENVS = REPOSITORY / ".data" / "bench" / "venvs"
RIVALS = {"litserve": "litserve==0.2.19", "mosec": "mosec==0.9.8"}
PREDICTORS = ("Sync", "Async", "Stream")
SLOTS = 16
_READY_SECONDS = 180.0  # a machine may be busy
_STOP_SECONDS = 10.0


@dataclass(frozen=True)
class Served:
    """A running server.

    Attributes:
        name: name in the table.
        port: port on loopback.
        pid: id of its first process.
        predict: path of the no-op; None if this server only streams.
        stream: path of the stream; None if this server does not stream.
        mark: bytes that occur once in each event of an item.
    """

    name: str
    port: int
    pid: int
    predict: str | None = "/predictions"
    stream: str | None = None
    mark: bytes = b"data: "

    def pin(self, cores: set[int]) -> None:
        """Pin every thread of the server and its descendants to these cores."""
        for _, task in _threads(self.pid):
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(task, cores)

    def cpu_seconds(self) -> float:
        """Return the CPU time of all its threads so far."""
        return sum(_cpu_seconds(process, task) for process, task in _threads(self.pid))

    def front_cpu_seconds(self) -> float:
        """Return the CPU time of its first process so far, without the processes below it."""
        return sum(_cpu_seconds(self.pid, task) for task in _tasks(self.pid))


def models_of(server: int) -> list[int]:
    """Return the model processes of a server, the oldest first; none if the server has ended."""
    return [child for child in _children(server, server) if b"spawn_main" in _command(child)]


def _command(process: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes()
    return b""


def _cpu_seconds(process: int, task: int) -> float:
    try:
        return int(Path(f"/proc/{process}/task/{task}/schedstat").read_text().split()[0]) / 1e9
    except FileNotFoundError:
        return 0.0


def _threads(process: int) -> Iterator[tuple[int, int]]:
    """Yield each thread of a process and of its descendants, with its process."""
    tasks = _tasks(process)
    yield from ((process, task) for task in tasks)
    for child in itertools.chain.from_iterable(_children(process, task) for task in tasks):
        yield from _threads(child)


def _tasks(process: int) -> list[int]:
    try:
        return [int(name) for name in os.listdir(f"/proc/{process}/task")]
    except FileNotFoundError:
        return []


def _children(process: int, task: int) -> list[int]:
    try:
        return list(map(int, Path(f"/proc/{process}/task/{task}/children").read_text().split()))
    except FileNotFoundError:
        return []


@contextlib.contextmanager
def mirror(
    folder: Path, predictor: str, name: str = "mirror", tree: Path = REPOSITORY
) -> Iterator[Served]:
    """Start this project's server, from these sources or another tree's."""
    shutil.copy(NOOP / "cog_noop.py", folder)
    environment = {
        "COG_PREDICT_TYPE_STUB": f"cog_noop.py:{predictor}",
        "COG_MAX_CONCURRENCY": str(_slots(predictor)),
        "PYTHONPATH": str(tree),
        "PORT": str(port := _free_port()),
    }
    command = [sys.executable, "-m", "server", "--host", "127.0.0.1"]
    with _running(command, folder, environment, port, "/readyz") as pid:
        yield _with_cogs_paths(name, predictor, port, pid)


@contextlib.contextmanager
def shipped(folder: Path, name: str, variables: Mapping[str, str]) -> Iterator[Served]:
    """Start this project's server with its own predictor, and settings by their variables."""
    environment = {
        "COG_PREDICT_TYPE_STUB": "predict.py:Predictor",
        "DATA_DIR": str(folder / "data"),
        "WEIGHTS_DIR": str(folder / "weights"),
        "PORT": str(port := _free_port()),
        "LOG_FORMAT": "console",
        **variables,
    }
    (folder / "predict.py").symlink_to(REPOSITORY / "predict.py")
    environment["PYTHONPATH"] = str(REPOSITORY)
    command = [sys.executable, "-m", "server", "--host", "127.0.0.1"]
    with _running(command, folder, environment, port, "/readyz") as pid:
        yield Served(name, port, pid)


@contextlib.contextmanager
def coglet(folder: Path, predictor: str) -> Iterator[Served]:
    """Start Cog's server."""
    shutil.copy(NOOP / "cog_noop.py", folder)
    reference, slots = f"cog_noop.py:{predictor}", str(_slots(predictor))
    write_schema(folder, predict=reference)
    with cog_server(folder, predict=reference, env={"COG_MAX_CONCURRENCY": slots}) as server:
        port = int(server.url.rpartition(":")[2])
        yield _with_cogs_paths("coglet", predictor, port, server.process.pid)


def _slots(predictor: str) -> int:
    return SLOTS if predictor == "Async" else 1


def _with_cogs_paths(name: str, predictor: str, port: int, pid: int) -> Served:
    if predictor == "Stream":
        return Served(name, port, pid, None, "/predictions", b'"index":')
    return Served(f"{name}, {predictor.lower()}", port, pid)


@contextlib.contextmanager
def floor(folder: Path) -> Iterator[Served]:
    """Start plain FastAPI."""
    port = _free_port()
    command = [sys.executable, "-m", "uvicorn", "fastapi_noop:app", "--app-dir", str(NOOP)]
    command += ["--port", str(port), "--loop", "uvloop", "--http", "httptools"]
    command += ["--no-access-log", "--log-level", "warning"]
    with _running(command, folder, {}, port, "/openapi.json") as pid:
        yield Served("FastAPI", port, pid, stream="/stream")


@contextlib.contextmanager
def litserve(folder: Path) -> Iterator[Served]:
    """Start LitServe."""
    port = _free_port()
    command = [_python("litserve"), str(NOOP / "litserve_noop.py"), str(port)]
    with _running(command, folder, {}, port, "/health") as pid:
        yield Served("LitServe", port, pid, stream="/stream")


@contextlib.contextmanager
def mosec(folder: Path) -> Iterator[Served]:
    """Start mosec."""
    port = _free_port()
    command = [_python("mosec"), str(NOOP / "mosec_noop.py")]
    command += ["--port", str(port), "--address", "127.0.0.1", "--log-level", "warning"]
    with _running(command, folder, {}, port, "/") as pid:
        yield Served("mosec", port, pid, stream="/stream")


def _python(rival: str) -> str:
    """Return the interpreter of a rival's environment; make the environment if it is missing."""
    folder = VENVS / RIVALS[rival].replace("==", "-")
    python = folder / "bin" / "python"
    if not (folder / "made").exists():
        venv.create(folder, clear=True, with_pip=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, RIVALS[rival]], check=True)
        (folder / "made").touch()
    return str(python)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def _running(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], port: int, ready: str
) -> Iterator[int]:
    """Run a server in its own session; yield when it is ready, and end all its processes."""
    log = folder / "server.log"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COG_")}
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=kept | dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait_until_ready(process, port, ready, log)
        yield process.pid
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes], port: int, path: str, log: Path) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while not _answers_200(port, path):
        if process.poll() is not None or time.monotonic() > deadline:
            text = log.read_text(errors="replace")[-4000:]
            raise RuntimeError(f"{process.args!r} did not get ready. Its log:\n{text}")
        time.sleep(0.1)


def _answers_200(port: int, path: str) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
            return connection.recv(12).endswith(b" 200")
    except OSError:
        return False
