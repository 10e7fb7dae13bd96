"""Where the other servers of a database are told to ask this one."""

import socket

import pytest
import structlog

from cog_adapt.server.process.links import is_loopback
from cog_adapt.server.process.own_url import own_url

POSTGRES = "postgresql://u:p@127.0.0.1/records"
SOCKET = "postgresql://u@/records?host=/run/postgresql"


def asked(host, set_url=None, database_url=None):
    """The URL of a server that listens on a host, and the warnings; `PORT` is its port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with (
        socket.create_server((host, 0), family=family) as listener,
        structlog.testing.capture_logs() as logs,
    ):
        port = str(listener.getsockname()[1])
        url = own_url(listener, set_url, database_url)
    return url.replace(f":{port}", ":PORT"), [entry["event"] for entry in logs]


def test_a_setting_says_it():
    assert asked("127.0.0.1", "http://one.internal:5000/", POSTGRES) == (
        "http://one.internal:5000",
        [],
    )


@pytest.mark.parametrize("database_url", [POSTGRES, SOCKET])
def test_an_address_of_this_host_alone_is_warned_of_where_other_hosts_may_serve(database_url):
    url, [warning] = asked("127.0.0.1", None, database_url)
    assert url == "http://127.0.0.1:PORT"
    assert "Set SERVER_URL" in warning


def test_one_host_alone_needs_no_other_address():
    assert asked("127.0.0.1") == ("http://127.0.0.1:PORT", [])
    assert asked("::1", None, "sqlite:///x.db") == ("http://[::1]:PORT", [])


class Routes(socket.socket):
    """A host whose address on the way to the database is one, and on the way out another."""

    def connect(self, address):
        self.way = address[0]

    def getsockname(self):
        known = {"10.0.0.9": "10.0.0.2", "192.0.2.1": "192.168.7.2", "127.0.0.1": "127.0.0.1"}
        return (known[self.way], 1)


@pytest.mark.parametrize(
    ("database_url", "host"),
    [
        ("postgresql://u@10.0.0.9/records", "10.0.0.2"),
        (POSTGRES, "192.168.7.2"),
        (SOCKET, "192.168.7.2"),
        ("postgresql://[u@/records", "192.168.7.2"),
        (None, "192.168.7.2"),
    ],
)
def test_one_that_listens_everywhere_is_asked_at_its_address_towards_the_database(
    monkeypatch, database_url, host
):
    with socket.create_server(("0.0.0.0", 0)) as listener:
        monkeypatch.setattr("cog_adapt.server.process.own_url.socket.socket", Routes)
        url = own_url(listener, None, database_url)
    assert url.startswith(f"http://{host}:")


class NoRoute(socket.socket):
    """A host without a network."""

    def connect(self, address):
        raise OSError(101, "Network is unreachable")


def test_one_without_a_network_is_asked_on_its_own_host(monkeypatch):
    with (
        socket.create_server(("0.0.0.0", 0)) as listener,
        structlog.testing.capture_logs() as logs,
    ):
        monkeypatch.setattr("cog_adapt.server.process.own_url.socket.socket", NoRoute)
        url = own_url(listener, None, POSTGRES)
    assert is_loopback(url.split("/")[2].split(":")[0])
    assert len(logs) == 1
