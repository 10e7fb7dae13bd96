"""`docker run`, and Compose with PostgreSQL; Docker's own commands are used."""

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from bench.deployments.walk import SETTINGS
from bench.deployments.watching import LIMITS, OPERATORS, ROOT
from bench.image import RUN, docker
from bench.storm.servers import free_port, is_ready

_GATEWAY = "{{range .NetworkSettings.Networks}}{{.Gateway}} {{end}}"
_EXIT = "{{.State.ExitCode}}"


@dataclass
class Published:
    """A server in a container, at a port of this host."""

    image: str
    count: int = 1
    container: str = ""
    port: int = field(default_factory=free_port)

    @property
    def url(self) -> str:
        """The published address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def host(self) -> str:
        """The gateway of the container's network, which is this host."""
        return docker("inspect", "--format", _GATEWAY, self.container).split()[0]

    def targets(self) -> list[str]:
        """Return the published address once the server is ready."""
        return [f"127.0.0.1:{self.port}"] if is_ready(self.url) else []


@dataclass
class Docker(Published):
    """One container, and a volume that outlives it."""

    def start(self) -> None:
        """Run the image."""
        variables = [f"--env={name}={value}" for name, value in (SETTINGS | LIMITS).items()]
        publish = ("--publish", f"127.0.0.1:{self.port}:5000", "--volume", f"{self._volume}:/data")
        self.container = docker(*RUN, *variables, *publish, self.image)

    @property
    def _volume(self) -> str:
        return f"bench-deployments-{os.getpid()}"

    def replace(self) -> None:
        """Remove the container, and run another with the same volume."""
        docker("rm", "--force", self.container)
        self.start()

    def stop(self) -> bool:
        """End the container by SIGTERM."""
        docker("stop", self.container)
        return docker("inspect", "--format", _EXIT, self.container) == "0"

    def remove(self) -> None:
        """Remove the container and the volume."""
        if self.container:
            docker("rm", "--force", self.container)
        docker("volume", "rm", "--force", self._volume)


@dataclass
class Compose(Published):
    """`deploy/compose/compose.yaml`; files that COMPOSE_FILE names are added to it."""

    folder: Path = field(kw_only=True)

    def _compose(self, *arguments: str) -> str:
        program = OPERATORS / "bin" / "docker-compose"
        command = [str(program)] if program.is_file() else ["docker", "compose"]
        override = self.folder / "walk.yaml"
        settings = {"environment": SETTINGS | LIMITS}
        override.write_text(json.dumps({"services": {"server": settings}}))
        files = [ROOT / "deploy" / "compose" / "compose.yaml", override]
        more = filter(None, [os.environ.get("COMPOSE_FILE")])
        own = {
            "COMPOSE_FILE": os.pathsep.join([*map(str, files), *more]),
            "COMPOSE_PROJECT_NAME": f"bench-deployments-{os.getpid()}",
            "COG_ADAPT_IMAGE": self.image,
            "PORT": str(self.port),
            "DEVICE": "cpu",
        }
        kept = {"POSTGRES_PASSWORD": "letters1"} | dict(os.environ)
        done = subprocess.run(
            [*command, *arguments], env=kept | own, stdout=subprocess.PIPE, text=True, check=True
        )
        return done.stdout.strip()

    def _up(self, *more: str) -> None:
        self._compose("up", "--wait", "--wait-timeout", "300", "--no-build", *more)
        self.container = self._compose("ps", "--quiet", "server")

    def start(self) -> None:
        """Start the services."""
        self._up()

    def replace(self) -> None:
        """Make all containers anew, with the same volumes."""
        self._up("--force-recreate")

    def stop(self) -> bool:
        """End the containers by SIGTERM."""
        self._compose("stop")
        return docker("inspect", "--format", _EXIT, self.container) == "0"

    def remove(self) -> None:
        """Remove containers, networks and volumes."""
        self._compose("down", "--volumes", "--timeout", "30")
