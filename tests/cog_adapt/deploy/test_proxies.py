"""Each proxy's configuration in docs/proxy.md, run by the real program before a real server."""

import contextlib
import os
import re
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trustme

from tests.cog_adapt.contract.servers import Server
from tests.cog_adapt.contract.serving import free_port, serving, stop
from tests.cog_adapt.waiting import wait_for

ROOT = Path(__file__).parents[3]
NAME = "models.example.org"
FETCHED = ROOT / ".venv-operators" / "debian" / "usr"
PLACES = f"{os.environ['PATH']}:/usr/sbin:{FETCHED}/sbin:{FETCHED}/bin"
STREAM = """\
import time
from pathlib import Path
import cog
from cog import BasePredictor, ConcatenateIterator

class Predictor(BasePredictor):
    @cog.streaming
    def run(self, text: str = "", go: str = "") -> ConcatenateIterator[str]:
        yield f"{len(text)} letters"
        while go and not Path(go).exists():
            time.sleep(0.01)
        yield ", and the end"
"""


@dataclass(frozen=True)
class Program:
    """A proxy's program.

    Attributes:
        language: of its block in the page.
        command: its arguments, before the file's path.
        head: what is before the block, where the page shows a part of a file.
        tail: what is after it.
    """

    language: str
    command: tuple[str, ...]
    head: str = ""
    tail: str = ""


PROGRAMS = {
    "nginx": Program(
        "nginx",
        (
            "nginx",
            "-g",
            "daemon off; pid nginx.pid; error_log stderr;",
            "-p",
            ".",
            "-e",
            "stderr",
            "-c",
        ),
        "events {}\nhttp {\naccess_log off;\nclient_body_temp_path body;\n"
        "proxy_temp_path proxied;\nfastcgi_temp_path f;\nuwsgi_temp_path u;\nscgi_temp_path s;\n",
        "}\n",
    ),
    "haproxy": Program("haproxy", ("haproxy", "-db", "-f")),
    "caddy": Program(
        "caddyfile",
        ("caddy", "run", "--adapter", "caddyfile", "--config"),
        "{\n    admin off\n    auto_https off\n}\n",
    ),
}


@dataclass
class Proxied:
    """A proxy, as its clients see it."""

    client: httpx2.Client
    server: Server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose predictor answers in two parts, the second one when a file is there."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "stream.py").write_text(STREAM)
    env = {"PUBLIC_URL": f"https://{NAME}"}
    with serving("mirror", folder, predict="stream.py:Predictor", env=env) as server:
        yield server


@pytest.fixture(scope="module", params=PROGRAMS)
def proxied(
    request: Any, server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Proxied]:
    """The server behind a proxy."""
    folder = tmp_path_factory.mktemp(request.param)
    name = request.param
    program = shutil.which(name, path=PLACES)
    if program is None:
        pytest.skip(f"no {name}: run .ci/operators, or apt-get install {name}")
    authority, port = trustme.CA(), free_port()
    one = authority.issue_cert(NAME)
    one.private_key_and_cert_chain_pem.write_to_path(folder / "both.pem")
    one.cert_chain_pems[0].write_to_path(folder / "certificate.pem")
    one.private_key_pem.write_to_path(folder / "key.pem")
    command = write_configuration(PROGRAMS[name], folder, port, server.port)
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [program, *command[1:]], cwd=folder, stdout=log, stderr=log, start_new_session=True
        )
    client = httpx2.Client(
        base_url=f"https://127.0.0.1:{port}",
        headers={"Host": NAME},
        verify=trust,
        trust_env=False,
        timeout=60,
    )
    try:
        with client:
            found = Proxied(client, server)
            wait_for(lambda: answers(found), 20)
            yield found
    finally:
        stop(process)


def write_configuration(program: Program, folder: Path, port: int, to: int) -> tuple[str, ...]:
    """Write the page's block with this test's names and ports, and return the command."""
    page = (ROOT / "docs" / "proxy.md").read_text()
    (shown,) = re.findall(rf"```{program.language}\n(.*?)```", page, re.DOTALL)
    text = shown.replace("/etc/ssl/models", str(folder)).replace(
        "127.0.0.1:5000", f"127.0.0.1:{to}"
    )
    if program.language == "caddyfile":
        text = text.replace(NAME, f"https://{NAME}:{port}")
    text = re.sub(r"(listen |bind :)443", lambda found: f"{found[1]}{port}", text)
    (folder / "configuration").write_text(program.head + text + program.tail)
    return (*program.command, str(folder / "configuration"))


def ask(proxied: Proxied, path: str, **more: Any) -> httpx2.Response:
    """Ask through TLS; the certificate's name is the one that the caller means."""
    return proxied.client.request(
        more.pop("method", "GET"), path, extensions={"sni_hostname": NAME}, **more
    )


def answers(proxied: Proxied) -> bool | None:
    """Whether the proxy reaches the server."""
    with contextlib.suppress(httpx2.TransportError):
        return ask(proxied, "/healthz").is_success or None
    return None


def test_a_proxy_passes_on_what_clients_need(proxied, tmp_path):
    large = ask(proxied, "/predictions", method="POST", json={"input": {"text": "a" * 20_000_000}})
    assert large.json()["output"] == ["20000000 letters", ", and the end"], large.text[:200]
    listed = ask(proxied, "/v1/predictions").json()["results"]
    assert listed[0]["urls"]["get"].startswith(f"https://{NAME}/v1/predictions/")
    refused = ask(proxied, "/shutdown", method="POST")
    assert refused.status_code == 403


def stream(proxied: Proxied, go: Path, id: str) -> Any:
    """Begin a run that goes on when `go` is there, as a stream."""
    return proxied.client.stream(
        "PUT",
        f"/predictions/{id}",
        json={"input": {"go": str(go)}},
        headers={"Accept": "text/event-stream"},
        extensions={"sni_hostname": NAME},
    )


def test_events_arrive_while_the_run_goes_on(proxied, tmp_path):
    go = tmp_path / "go"
    with stream(proxied, go, f"{tmp_path.name}-events") as answer:
        lines = answer.iter_lines()
        assert any("letters" in line for line in lines)
        go.touch()
        assert any("the end" in line for line in lines)


def test_a_run_ends_with_its_client(proxied, tmp_path):
    id = f"{tmp_path.name}-left"
    with stream(proxied, tmp_path / "never", id) as answer:
        assert any("letters" in line for line in answer.iter_lines())

    def is_canceled():
        found = proxied.server.get(f"/predictions/{id}").json()
        return found.get("status") == "canceled" or None

    wait_for(is_canceled, 30)
