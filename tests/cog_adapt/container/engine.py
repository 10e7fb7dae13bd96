"""A Docker engine: the one of this machine, or Debian's, unpacked and started by hand."""

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

PACKAGES = ("docker.io", "containerd", "runc")
TOOLS = ("apt-get", "dpkg", "ip", "umount")
BRIDGE = Path("/sys/class/net/docker0")
START_SECONDS = 60.0
STOP_SECONDS = 60.0


class MissingError(Exception):
    """This machine cannot run an engine; the message says what it lacks."""


@dataclass(frozen=True)
class Engine:
    """A running engine.

    Attributes:
        is_own: whether it was started here, where images cannot be pulled.
    """

    environment: Mapping[str, str]
    is_own: bool

    def docker(self, *arguments: str, **more) -> str:
        """The standard output of the docker client, stripped.

        Raises:
            AssertionError: it failed; the message is its standard error.
        """
        done = subprocess.run(
            ["docker", *arguments],
            env={**self.environment, "DOCKER_BUILDKIT": "1"},
            capture_output=True,
            text=True,
            check=False,
            **more,
        )
        assert done.returncode == 0, f"docker {' '.join(arguments)}:\n{done.stderr[-8000:]}"
        return done.stdout.strip()


@contextlib.contextmanager
def running_engine(folder: Path) -> Iterator[Engine]:
    """The engine of this machine where there is one, else one that ends here.

    Raises:
        MissingError: there is none, and none can be started.
    """
    if _answers(os.environ):
        yield Engine(os.environ, is_own=False)
        return
    check_machine()
    unpack(folder, *PACKAGES)
    programs = [str(folder / "usr" / name) for name in ("bin", "sbin")]
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([*programs, os.environ["PATH"]]),
        "DOCKER_HOST": f"unix://{folder}/socket",
    }
    with _daemon(folder, environment):
        yield Engine(environment, is_own=True)


def check_machine() -> None:
    """Whether an engine could run here.

    Raises:
        MissingError: what is missing.
    """
    if os.geteuid() != 0:
        raise MissingError("an engine needs root")
    if "\toverlay\n" not in Path("/proc/filesystems").read_text():
        raise MissingError("the kernel has no overlayfs")
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing:
        raise MissingError(f"there is no {', '.join(missing)}: Debian's engine cannot be unpacked")


def unpack(folder: Path, *packages: str) -> None:
    """Unpack Debian's packages; to install them would start services."""
    archives = folder / "archives"
    archives.mkdir(parents=True, exist_ok=True)
    subprocess.run(["apt-get", "-qq", "update"], check=True, capture_output=True)
    fetch = ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download"]
    subprocess.run([*fetch, *packages], cwd=archives, check=True, capture_output=True)
    for archive in archives.iterdir():
        subprocess.run(["dpkg", "-x", archive, folder], check=True)
        archive.unlink()


def _answers(environment: Mapping[str, str]) -> bool:
    """Whether there is an engine; a client alone is none."""
    if not shutil.which("docker", path=environment["PATH"]):
        return False
    done = subprocess.run(["docker", "info"], env=environment, check=False, capture_output=True)
    return done.returncode == 0


@contextlib.contextmanager
def _daemon(folder: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """dockerd that leaves the host's firewall alone, and nothing behind."""
    had_bridge = BRIDGE.exists()
    execution = folder / "execution"
    flags = {
        "data-root": folder / "data",
        "exec-root": execution,
        "pidfile": folder / "pid",
        "host": environment["DOCKER_HOST"],
        "iptables": "false",
        "ip6tables": "false",
        "ip-forward": "false",
        "ip-masq": "false",
        "storage-driver": "overlay2",
        "oom-score-adjust": "0",
    }
    command = [
        str(folder / "usr" / "sbin" / "dockerd"),
        *(f"--{name}={value}" for name, value in flags.items()),
    ]
    with (folder / "log").open("wb") as log:
        daemon = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        _wait_for_daemon(folder, daemon, environment)
        yield
    finally:
        daemon.terminate()
        daemon.wait(STOP_SECONDS)
        for mount in execution.glob("netns/*"):
            subprocess.run(["umount", mount], check=False, capture_output=True)
        if BRIDGE.exists() and not had_bridge:
            subprocess.run(["ip", "link", "delete", BRIDGE.name], check=True)


def _wait_for_daemon(
    folder: Path, daemon: subprocess.Popen[bytes], environment: Mapping[str, str]
) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not _answers(environment):
        if daemon.poll() is not None or time.monotonic() > deadline:
            log = (folder / "log").read_text(errors="replace")
            raise MissingError(f"dockerd does not start here:\n{log[-3000:]}")
        time.sleep(0.2)
