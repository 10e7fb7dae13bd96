"""A container of an image, and one client of it."""

import base64
import contextlib
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx2

from tests.cog_adapt.container.base_image import ROOT
from tests.cog_adapt.container.engine import Engine
from tests.cog_adapt.waiting import wait_until

HARDENED = (
    *("--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--memory", "3g"),
    *("--security-opt", "no-new-privileges"),
)
READY_SECONDS = 300.0  # two cores that others use too
ANSWER_SECONDS = 600.0


@dataclass(frozen=True)
class Container:
    """A running container whose port is published."""

    engine: Engine
    id: str
    client: httpx2.Client

    def get(self, path: str) -> Any:
        """The JSON of a GET."""
        return self.client.get(path).json()

    def post(self, path: str, values: dict, headers: dict[str, str] | None = None) -> Any:
        """The JSON of a POST of inputs, as `cog predict` sends them."""
        body = {"input": values, "context": {}}
        return self.client.post(path, json=body, headers=headers).json()

    def succeed(self, path: str, values: dict) -> Any:
        """The output of what has to succeed."""
        answer = self.post(path, values)
        assert answer.get("status") == "succeeded", answer
        return answer["output"]

    def execute(self, *command: str) -> str:
        """What a command inside writes."""
        return self.engine.docker("exec", self.id, *command)

    def inspect(self, form: str) -> str:
        """A part of what the engine knows about it, as a Go template."""
        return self.engine.docker("inspect", "--format", form, self.id)

    def stop(self, seconds: int) -> int:
        """`docker stop`; the exit code."""
        self.engine.docker("stop", "--time", str(seconds), self.id)
        return int(self.inspect("{{.State.ExitCode}}"))

    def wait_until(self, wanted: Callable[[], bool], seconds: float = READY_SECONDS) -> None:
        """Wait for something; say what the server wrote when it does not come."""

        def look() -> bool:
            with contextlib.suppress(httpx2.TransportError):
                if wanted():
                    return True
            alive = self.inspect("{{.State.Running}}") == "true"
            assert alive, f"the container ended:\n{self.logs()}"
            return False

        wait_until(look, seconds, self.logs)

    def is_healthy(self) -> bool:
        """Whether the HEALTHCHECK says so."""
        return self.inspect("{{.State.Health.Status}}") == "healthy"

    def logs(self) -> str:
        """What the server wrote last, on either of its outputs."""
        command = ("docker", "logs", "--tail", "50", self.id)
        return subprocess.run(
            command,
            env=self.engine.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        ).stdout

    def is_ready(self) -> bool:
        """Whether Cog's health check says so."""
        health = self.get("/health-check")
        assert health["status"] != "SETUP_FAILED", health["setup"]["logs"]
        return health["status"] == "READY"


@contextlib.contextmanager
def started(
    engine: Engine, image: str, *options: str, command: tuple[str, ...] = ()
) -> Iterator[Container]:
    """A container, removed at the end."""
    publish = ("--detach", "--publish", "127.0.0.1:0:5000")
    name = engine.docker("run", *publish, *options, image, *command)
    try:
        address = engine.docker("port", name, "5000/tcp").splitlines()[0]
        with httpx2.Client(
            base_url=f"http://{address}", timeout=ANSWER_SECONDS, trust_env=False
        ) as client:
            yield Container(engine, name, client)
    finally:
        engine.docker("rm", "--force", "--volumes", name)


@contextlib.contextmanager
def running(
    engine: Engine, image: str, *options: str, command: tuple[str, ...] = ()
) -> Iterator[Container]:
    """A container that became READY, removed at the end."""
    with started(engine, image, *options, command=command) as container:
        container.wait_until(container.is_ready)
        yield container


@contextlib.contextmanager
def volume(engine: Engine) -> Iterator[str]:
    """A named volume, removed at the end."""
    name = engine.docker("volume", "create")
    try:
        yield name
    finally:
        engine.docker("volume", "rm", name)


def example_file(name: str) -> str:
    """A file of examples/, as `cog predict -i examples_file=@FILE` sends it."""
    content = base64.b64encode((ROOT / "examples" / name).read_bytes()).decode()
    return f"data:application/octet-stream;base64,{content}"
