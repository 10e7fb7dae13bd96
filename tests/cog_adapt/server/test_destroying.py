"""Where no keys are set, what cannot be undone is for callers on the server's own host alone."""

import socket
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from cog_adapt.server.middleware.keys import make_key
from cog_adapt.server.middleware.stack import add_access_control
from cog_adapt.server.settings import Settings
from tests.cog_adapt.server.asgi_client import ask, served
from tests.cog_adapt.server.middleware.applications import caller

REPOSITORY = Path(__file__).parents[3]
DESTROYING = [
    ("POST", "/shutdown"),
    ("DELETE", "/owners/-/data"),
    ("DELETE", "/predictions/x"),
    ("DELETE", "/trainings/x"),
    ("DELETE", "/adapters/x"),
]
LOCAL = {"Host": "127.0.0.1:5000"}
CURL = ("127.0.0.1", LOCAL)
PAGE = {"Origin": "http://localhost:5000", "Sec-Fetch-Site": "same-origin"}


def status(method, path, peer="127.0.0.1", headers=LOCAL, **settings):
    app = add_access_control(caller, Settings(**settings))
    return ask(app, method, path, headers, client=peer and (peer, 4000)).status


@pytest.mark.parametrize(("method", "path"), DESTROYING)
@pytest.mark.parametrize(
    ("peer", "headers"),
    [
        pytest.param("127.0.0.1", LOCAL, id="curl"),
        pytest.param("127.0.0.1", {}, id="no host"),
        pytest.param("127.8.9.1", {"Host": "127.8.9.1"}, id="another address of loopback"),
        pytest.param("::1", {"Host": "[::1]:5000"}, id="IPv6"),
        pytest.param("::ffff:127.0.0.1", {"Host": "LOCALHOST:5000"}, id="IPv4 on IPv6"),
        pytest.param("127.0.0.1", {"Host": "localhost:5000"} | PAGE, id="the page's button"),
    ],
)
def test_a_local_caller_may_destroy(method, path, peer, headers):
    assert status(method, path, peer, headers) == 200


@pytest.mark.parametrize(("method", "path"), DESTROYING)
@pytest.mark.parametrize(
    ("peer", "headers"),
    [
        pytest.param("203.0.113.5", {"Host": "203.0.113.9:5000"}, id="another host"),
        pytest.param("192.168.1.7", LOCAL, id="another host that names this one"),
        pytest.param("172.17.0.1", {"Host": "localhost:5000"}, id="a container's published port"),
        pytest.param("172.17.0.1", {"Host": "localhost:5000"} | PAGE, id="its page's button"),
        pytest.param("::ffff:172.17.0.1", LOCAL, id="the same on IPv6"),
        pytest.param("", LOCAL, id="no peer that is known"),
        pytest.param("127.0.0.1", LOCAL | {"X-Forwarded-For": "127.0.0.1"}, id="proxy"),
        pytest.param("127.0.0.1", LOCAL | {"Forwarded": "for=127.0.0.1"}, id="RFC 7239"),
        pytest.param("127.0.0.1", LOCAL | {"X-Real-IP": "127.0.0.1"}, id="nginx"),
        pytest.param("127.0.0.1", LOCAL | {"Via": "1.1 proxy"}, id="RFC 9110"),
        pytest.param("127.0.0.1", LOCAL | {"X-Forwarded-Proto": "https"}, id="its scheme"),
        pytest.param("127.0.0.1", LOCAL | {"X-Forwarded-Host": "a.example"}, id="its host"),
        pytest.param("127.0.0.1", LOCAL | {"CF-Connecting-IP": "::1"}, id="Cloudflare"),
        pytest.param("127.0.0.1", LOCAL | {"True-Client-IP": "::1"}, id="Akamai"),
        pytest.param("127.0.0.6", LOCAL | {"X-Envoy-External-Address": "::1"}, id="sidecar"),
        pytest.param("127.0.0.1", {"Host": "api.example"}, id="proxy that keeps the host"),
        pytest.param(
            "127.0.0.1",
            {"Host": "evil.example:5000", "Origin": "http://evil.example:5000"},
            id="a name that leads here",
        ),
    ],
)
def test_no_other_caller_may(method, path, peer, headers):
    assert status(method, path, peer, headers) == 403


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/predictions"),
        ("POST", "/predictions"),
        ("PUT", "/predictions/x"),
        ("POST", "/predictions/x/cancel"),
        ("POST", "/adapters"),
        ("PATCH", "/adapters/x"),
        ("GET", "/shutdown"),
    ],
)
def test_what_destroys_nothing_is_for_all(method, path):
    assert status(method, path, "203.0.113.5", {"Host": "server:5000"}) == 200


@pytest.mark.parametrize(("method", "path"), DESTROYING)
def test_strict_cog_does_as_cog_does(method, path):
    assert status(method, path, "203.0.113.5", {}, strict_cog=True) == 200


def test_keys_open_it_from_everywhere(tmp_path):
    key, line = make_key("ops", ["admin"])
    (tmp_path / "keys").write_text(line)
    bearer = {"Authorization": f"Bearer {key}", "X-Forwarded-For": "203.0.113.5"}
    for method, path in DESTROYING:
        remote = "203.0.113.5", bearer
        assert status(method, path, *remote, api_keys_file=tmp_path / "keys") == 200
        assert status(method, path, *CURL, api_keys_file=tmp_path / "keys") == 401


def test_the_refusal_says_what_to_set_and_is_logged():
    with capture_logs() as lines:
        answer = ask(add_access_control(caller, Settings()), "DELETE", "/owners/-/data")
    assert "API_KEYS_FILE" in answer.error
    assert "http://127.0.0.1" in answer.error
    assert lines[0]["why"] == "not a local caller, and no keys are set"
    long = ask(add_access_control(caller, Settings()), "DELETE", "/" + "x" * 9000)
    assert len(long.error) < 400


@pytest.mark.parametrize(("version", "code"), [("1.1", b"200"), ("1.0", b"403")])
def test_a_proxy_that_says_nothing_is_known_by_its_version(version, code):
    app = add_access_control(caller, Settings())
    with served(app) as address, socket.create_connection(address, timeout=10) as client:
        ask_it = f"POST /shutdown HTTP/{version}\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
        client.sendall(ask_it.encode())
        assert client.recv(1000).split()[1] == code


SERVE = """
main.Server.run = lambda self, sockets: setattr(self, "started", True)
main.serve(["--host", {host!r}])
"""


@pytest.fixture
def lines_of(start, tmp_path):
    """What a server that is to listen there writes first."""

    def lines(host, **variables):
        done = start(tmp_path, SERVE.format(host=host), **variables)
        assert done.returncode == 0, done
        return [line for line in done.stderr.splitlines() if "no API keys are set" in line]

    return lines


@pytest.mark.parametrize(("host", "strict"), [("0.0.0.0", ""), ("::", ""), ("0.0.0.0", "1")])
def test_a_server_that_strangers_reach_says_so_once(lines_of, host, strict):
    (line,) = lines_of(host, STRICT_COG=strict)
    assert all(word in line for word in ("API_KEYS_FILE", "127.0.0.1", "warn"))


@pytest.mark.parametrize(("host", "has_keys"), [("127.0.0.1", ""), ("::1", ""), ("0.0.0.0", "1")])
def test_one_that_they_do_not_reach_or_that_has_keys_says_nothing(
    lines_of, tmp_path, host, has_keys
):
    (tmp_path / "keys").write_text("")
    assert lines_of(host, **({"API_KEYS_FILE": "keys"} if has_keys else {})) == []
