"""The link that a person may click."""

import socket

import pytest
import structlog

from cog_adapt.server.process.links import log_playground, playground_url

SERVE = """
main.Server.run = lambda self, sockets: setattr(self, "started", True)
main.serve(["--host", "127.0.0.1"])
"""
EXAMPLE = "from examples import few_shot, serve; print(serve.REQUESTS)"


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("0.0.0.0", "localhost"),
        ("::", "localhost"),
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "[::1]"),
        ("10.1.2.3", "10.1.2.3"),
    ],
)
def test_the_link_leads_to_the_server(host, shown):
    assert playground_url(host, 5000) == f"http://{shown}:5000/playground"


def test_the_port_is_the_one_that_is_listened_on():
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        structlog.testing.capture_logs() as logs,
    ):
        log_playground(listener)
        port = listener.getsockname()[1]
    assert [entry["url"] for entry in logs] == [f"http://127.0.0.1:{port}/playground"]


@pytest.mark.parametrize(("strict", "is_shown"), [("", True), ("0", True), ("1", False)])
def test_a_server_shows_its_link_unless_it_is_strict(start, tmp_path, strict, is_shown):
    done = start(tmp_path, SERVE, STRICT_COG=strict)
    assert done.returncode == 0, done
    assert ("/playground" in done.stderr) is is_shown


@pytest.mark.parametrize(("strict", "is_shown"), [("", True), ("1", False)])
def test_make_serve_shows_it_before_anything_else(start, tmp_path, strict, is_shown):
    done = start(tmp_path, EXAMPLE, PORT="5001", STRICT_COG=strict)
    assert done.returncode == 0, done
    shown = "open http://localhost:5001/playground in a browser, or paste:" in done.stdout
    assert shown is is_shown
