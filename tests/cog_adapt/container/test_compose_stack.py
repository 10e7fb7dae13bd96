"""deploy/compose/compose.yaml, run by the real Compose in a real engine: server and PostgreSQL."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from tests.cog_adapt.container.base_image import ROOT, base_name
from tests.cog_adapt.container.engine import Engine
from tests.cog_adapt.contract.serving import free_port
from tests.cog_adapt.deploy.operators import program
from tests.cog_adapt.waiting import wait_for

HERE = Path(__file__).parent
ROWS = [
    {"text": "The box never came", "label": "delivery"},
    {"text": "I want my money back", "label": "refund"},
]
ASKED = {"text": "Where is my parcel?", "deterministic": True}
TAUGHT = {**ASKED, "examples": ROWS, "method": "lora", "steps": 2}
# Docker's names of containers need iptables, which this engine leaves alone.
OF_THIS_ENGINE = """
services:
  server: {extra_hosts: ["database:10.83.0.2"]}
  database: {networks: {default: {ipv4_address: 10.83.0.2}}}
networks:
  default: {ipam: {config: [{subnet: 10.83.0.0/24}]}}
"""


@dataclass(frozen=True)
class Stack:
    """The services of the file."""

    engine: Engine
    url: str
    command: tuple[str, ...]
    environment: dict[str, str]

    def compose(self, *arguments: str) -> str:
        """Run Compose, and return what it writes."""
        done = subprocess.run(
            [*self.command, *arguments], env=self.environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr[-6000:]
        return done.stdout

    def is_ready(self) -> bool | None:
        """Whether the server accepts requests."""
        with contextlib.suppress(httpx2.TransportError):
            return httpx2.get(f"{self.url}/readyz").is_success or None
        return None

    def post(self, **values: object) -> dict:
        """Ask for a prediction."""
        return httpx2.post(f"{self.url}/predictions", json={"input": values}, timeout=120).json()


@pytest.fixture(scope="module")
def stack(engine, image, tmp_path_factory) -> Iterator[Stack]:
    """The stack, started as the page says; no image is pulled."""
    folder, port = tmp_path_factory.mktemp("stack"), free_port()
    options = ("--network", "host", "--build-arg", f"BASE={base_name()}")
    engine.docker("build", *options, "--tag", "postgres-test", str(HERE / "postgres"))
    (folder / "override.yaml").write_text(OF_THIS_ENGINE if engine.is_own else "{}")
    files = (str(ROOT / "deploy" / "compose" / "compose.yaml"), str(folder / "override.yaml"))
    command = (str(program("docker-compose")), *(each for file in files for each in ("-f", file)))
    own = {"POSTGRES_PASSWORD": "letters1", "POSTGRES_IMAGE": "postgres-test", "PORT": str(port)}
    own |= {"COG_ADAPT_IMAGE": image, "COMPOSE_PROJECT_NAME": f"test{os.getpid()}", "DEVICE": "cpu"}
    made = Stack(engine, f"http://127.0.0.1:{port}", command, {**engine.environment, **own})
    try:
        made.compose("up", "--wait", "--wait-timeout", "300", "--no-build", "--pull", "never")
        wait_for(made.is_ready, 300)
        yield made
    finally:
        made.compose("down", "--volumes", "--timeout", "30")


def test_records_and_adapters_outlive_the_containers(stack):
    answer = stack.post(**TAUGHT)
    assert answer["status"] == "succeeded", answer
    adapter = answer["output"]["adapter"]
    stack.compose("up", "--wait", "--no-build", "--force-recreate", "--pull", "never")
    wait_for(stack.is_ready, 300)
    kept = httpx2.get(f"{stack.url}/predictions/{answer['id']}").json()
    assert kept["output"]["adapter"] == adapter
    again = stack.post(**ASKED, adapter=adapter)
    assert again["output"]["predictions"] == answer["output"]["predictions"]


def test_the_database_is_postgresql_and_the_root_is_read_only(stack):
    table = "SELECT count(*) > 0 FROM records"
    asked = ("psql", "--username", "cog", "--dbname", "cog", "-tAc", table)
    assert stack.compose("exec", "-T", "database", *asked).strip() == "t"
    written = "touch /src/x 2>/dev/null; echo $?"
    assert stack.compose("exec", "-T", "server", "sh", "-c", written).strip() != "0"
