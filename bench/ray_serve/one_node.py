"""A Ray cluster of one node, and the processes of its replicas."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil

from bench.ray_serve.environment import interfaces, ray_variables

PORT = 8000
_REPLICA = "ray::ServeReplica"


@contextlib.contextmanager
def one_node(variables: Mapping[str, str], cores: int) -> Iterator[Path]:
    """Start Ray, and yield a folder for what its replicas write.

    Args:
        variables: of the replicas, beside Ray's own.
        cores: that Ray may reserve for replicas, whatever the machine has.

    Raises:
        SystemExit: this process has another network than loopback, on which Ray would listen.
    """
    if interfaces() != ["lo"]:
        raise SystemExit("run it by `python -m bench.ray_serve`, which leaves all networks first.")
    folder = Path(tempfile.mkdtemp(prefix="ray-"))
    for name in [name for name in os.environ if name.startswith("COG_")]:
        del os.environ[name]
    own = {"DATA_DIR": str(folder / "data"), "WEIGHTS_DIR": str(folder / "weights")}
    os.environ.update(ray_variables(folder) | own | dict(variables))

    import ray  # reads its variables when it is imported
    from ray import serve

    ray.init(num_cpus=cores, include_dashboard=True, log_to_driver=False, configure_logging=False)
    try:
        serve.start(proxy_location="HeadOnly", http_options={"host": "0.0.0.0", "port": PORT})
        yield folder
    finally:
        serve.shutdown()
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def replicas(application: str) -> list[int]:
    """Return the process ids of an application's replicas."""
    commands = {each.pid: each.info["cmdline"] for each in psutil.process_iter(["cmdline"])}
    start = f"{_REPLICA}:{application}:"
    return [pid for pid, words in commands.items() if words and words[0].startswith(start)]


def own_megabytes(pid: int) -> float:
    """Return the memory that a process and its descendants share with no other process, in MB."""
    return float(sum(each.memory_full_info().uss for each in _family(pid)) / 2**20)


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and its descendants so far, of threads that ended too."""
    times = [each.cpu_times() for each in _family(pid)]
    return float(sum(each.user + each.system for each in times))


def _family(pid: int) -> list[Any]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]
