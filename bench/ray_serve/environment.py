"""An environment with Ray beside this one, and a network of its own for it."""

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sysconfig
import venv
from importlib.metadata import distributions
from pathlib import Path

from bench.serving_servers import REPOSITORY

ENVIRONMENT = REPOSITORY / ".venv-ray"
RAY = Path("deploy/ray/requirements.txt")
_NEW_NETWORK = 0x40000000  # CLONE_NEWNET
_SET_FLAGS = 0x8914  # SIOCSIFFLAGS
_UP_AND_RUNNING = 0x1 | 0x40
_PROXY_FILES = {
    "CONFIG_FILE_LOC": "haproxy.cfg",
    "SOCKET_PATH": "admin.sock",
    "SERVER_STATE_BASE": "",
    "SERVER_STATE_FILE": "server-state",
    "METRICS_SOCKET_PATH": "metrics.sock",
}


def python_beside() -> Path:
    """Return the Python of an environment with Ray, which sees this one's packages.

    The environment, `.venv-ray`, is made if it is not there; none of this one's packages changes.
    """
    python = ENVIRONMENT / "bin" / "python"
    if not python.exists():
        venv.create(ENVIRONMENT, with_pip=True)
    purelib = sysconfig.get_path("purelib", vars={"base": str(ENVIRONMENT)})
    Path(purelib, "beside.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pins = {f"{each.name}=={each.version}" for each in distributions()}
    constraints = ENVIRONMENT / "constraints.txt"
    constraints.write_text("\n".join(sorted(pins)))
    quiet = ("--quiet", "--disable-pip-version-check", "--root-user-action", "ignore")
    command = [str(python), "-m", "pip", "install", *quiet, "-c", str(constraints), "-r", str(RAY)]
    subprocess.run(command, check=True, cwd=REPOSITORY)
    return python


def interfaces() -> list[str]:
    """Return the names of this process's network interfaces."""
    return sorted(name for _, name in socket.if_nameindex())


def leave_networks() -> None:
    """Move this process, and all that it starts, into a network namespace with loopback alone.

    Ray listens on all interfaces, whatever it is told.

    Raises:
        OSError: the kernel, or a container, does not allow it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_NETWORK):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        fcntl.ioctl(probe, _SET_FLAGS, struct.pack("16sH14x", b"lo", _UP_AND_RUNNING))


def ray_variables(folder: Path) -> dict[str, str]:
    """Return the variables of a Ray whose files lie in a folder.

    Args:
        folder: has a short path, since sockets lie in it.
    """
    proxy = {f"RAY_SERVE_HAPROXY_{name}": str(folder / file) for name, file in _PROXY_FILES.items()}
    return proxy | {
        "RAY_TMPDIR": str(folder),
        "RAY_AUTH_TOKEN": "a" * 64,
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_SERVE_ENABLE_HA_PROXY": "1",
        "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",
        "RAY_SERVE_HAPROXY_BALANCE_ALGORITHM": "roundrobin",
        "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "3",
        "RAY_SERVE_REPLICA_AUTOSCALING_METRIC_PUSH_INTERVAL_S": "1",
        # on a busy machine Ray would kill a proxy that has not come up in 5 s, again and again
        "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",
        "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "60",
        "RAY_SERVE_HAPROXY_STARTUP_TIMEOUT_S": "120",
        "PYTHONPATH": str(REPOSITORY),
        "OMP_NUM_THREADS": "1",
    }
