"""A server that goes, and comes back at the same address."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx2

from tests.cog_adapt.contract.servers import Server
from tests.cog_adapt.contract.serving import stop, wait_until
from tests.cog_adapt.forks import ForkedProcess
from tests.cog_adapt.waiting import wait_for


def take_away(server: Server) -> Callable[[], None]:
    """Stop a server; return what brings it back."""
    environment = _environment_of(server.process)
    stop(server.process)

    def bring_back() -> None:
        with server.log.open("ab") as output:
            server.process = subprocess.Popen(
                [sys.executable, "-m", "server", "--host", "127.0.0.1"],
                cwd=server.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        wait_until(server, "READY")

    return bring_back


def _environment_of(process: subprocess.Popen[bytes]) -> dict[str, str]:
    if isinstance(process, ForkedProcess):
        return process.variables
    variables = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
    return dict(each.decode().split("=", 1) for each in variables if each)


def wait_until_ready(server: Server, key: str) -> None:
    """Wait for a server that says nothing without a key."""
    headers = {"Authorization": f"Bearer {key}"}

    def is_ready() -> bool | None:
        try:
            return server.get("/readyz", headers=headers).status_code == 200 or None
        except httpx2.TransportError:
            return None

    wait_for(is_ready, 60)
