"""Ray Serve with two replicas, by Ray's own commands, in a network namespace of its own."""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from bench.deployments.alone import cluster, environment
from bench.deployments.walk import START_SECONDS
from bench.deployments.watching import ROOT, until
from bench.ray_serve.cold_start import DASHBOARD, ready_port
from bench.ray_serve.environment import leave_networks, python_beside, ray_variables
from bench.ray_serve.one_node import PORT, replicas

_NAME = "cog-adapt"  # of the application, in the file
_CHANGED = {"max_replicas": 2, "num_gpus": 0, "num_cpus": 1}
_DRAIN_SECONDS = (30, 20)  # another value is another version of all replicas


class UnderRay:
    """A head, the only node, with two replicas of `deploy/ray/serve.yaml`.

    It moves this process into a network with loopback alone, on which Ray would listen outside.

    Raises:
        OSError: the kernel, or a container, does not allow a network of its own.
    """

    count, host, url = 2, "127.0.0.1", f"http://127.0.0.1:{PORT}"

    def __init__(self) -> None:
        self._programs = python_beside().parent
        leave_networks()
        self._folder = Path(tempfile.mkdtemp(prefix="ray-"))  # sockets need a short path
        self._database = cluster()
        self._head: subprocess.Popen[bytes] | None = None
        own = {"DATABASE_URL": self._database.empty(), "DATA_DIR": str(self._folder / "data")}
        own |= {"WEIGHTS_DIR": str(self._folder / "weights"), "RAY_AUTH_MODE": "token"}
        self._variables = environment() | ray_variables(self._folder) | own

    def start(self) -> None:
        """Start the head, and deploy the application."""
        command = [str(self._programs / "ray"), "start", "--head", "--block", "--num-cpus=4"]
        with (self._folder / "head.log").open("wb") as log:
            self._head = subprocess.Popen(
                command, cwd=ROOT, env=self._variables, stdout=log, stderr=log
            )
        until(self._is_up, START_SECONDS, "Ray has no dashboard")
        self._deploy(_DRAIN_SECONDS[0])

    def targets(self) -> list[str]:
        """Return each ready replica's own port."""
        return [f"127.0.0.1:{port}" for pid in replicas(_NAME) if (port := ready_port(pid))]

    def replace(self) -> None:
        """Deploy with another option: Ray starts new replicas, and ends the old ones."""
        old = {*replicas(_NAME)}
        self._deploy(_DRAIN_SECONDS[1])
        until(lambda: not old & {*replicas(_NAME)}, START_SECONDS, "old replicas remain")

    def stop(self) -> bool:
        """End the application, and then the head; what does not end by itself raises."""
        assert self._head is not None
        self._serve("shutdown", "--yes").check_returncode()
        until(lambda: not replicas(_NAME), START_SECONDS, "replicas remain")
        self._head.terminate()
        self._head.wait(60)
        return True

    def remove(self) -> None:
        """End the head if it runs yet, and remove the database and all files."""
        if self._head is not None and self._head.poll() is None:
            self._head.terminate()
            self._head.wait(60)
        self._database.remove()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _deploy(self, drain_seconds: int) -> None:
        text = (ROOT / "deploy" / "ray" / "serve.yaml").read_text()
        for option, value in (_CHANGED | {"drain_seconds": drain_seconds}).items():
            text = re.sub(rf"(?m)^( +{option}:).*$", rf"\1 {value}", text)
        config = self._folder / "serve.yaml"
        config.write_text(text)
        self._serve("deploy", str(config)).check_returncode()

    def _is_up(self) -> bool:
        return self._serve("status").returncode == 0

    def _serve(self, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
        command = [str(self._programs / "serve"), *arguments, "--address", DASHBOARD]
        with (self._folder / "serve.log").open("ab") as log:
            return subprocess.run(
                command, cwd=ROOT, env=self._variables, stdout=log, stderr=log, check=False
            )
