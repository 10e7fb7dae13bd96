"""The URL at which the other servers of the same database reach this one."""

import socket
from urllib.parse import urlsplit

import structlog

from cog_adapt.server.process.links import is_loopback

_ANY = ("0.0.0.0", "::")
_ELSEWHERE = "192.0.2.1"  # an address for documentation: no packet is sent there
_PORT = 9
log = structlog.get_logger()


def own_url(listener: socket.socket, set_url: str | None, database_url: str | None) -> str:
    """Return `SERVER_URL`, or the listener's address.

    A server that listens on all addresses names the one from which this host reaches the database,
    since the other servers are in reach of the database too; of a database on this host, the one
    from which it reaches other networks. It warns where only this host can reach the address,
    although servers of other hosts may use the database.

    Args:
        listener: the socket that takes the requests.
        set_url: the setting; None: unset.
        database_url: the setting.
    """
    if set_url is not None:
        return set_url.rstrip("/")
    host, port = listener.getsockname()[:2]
    if host in _ANY:
        host = _address_towards(_host_of(database_url)) or "127.0.0.1"
    if is_loopback(host) and _is_for_many_hosts(database_url):
        log.warning(
            "servers on other hosts cannot ask this one about what it runs: its address is of this "
            "host alone. Set SERVER_URL to a URL at which they reach it, or listen on another "
            "address (--host)",
            host=host,
        )
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _is_for_many_hosts(database_url: str | None) -> bool:
    return database_url is not None and database_url.startswith("postgres")


def _host_of(database_url: str | None) -> str | None:
    """Return the database's host, if its URL names one."""
    try:
        return urlsplit(database_url or "").hostname
    except ValueError:
        return None


def _address_towards(host: str | None) -> str | None:
    """Return this host's address on the way to another; None if it has no network."""
    for each in (host, _ELSEWHERE):
        address = None if each is None else _address_on_the_way(each)
        if address is not None and not is_loopback(address):
            return address
    return None


def _address_on_the_way(host: str) -> str | None:
    try:
        family, kind, *_, to = socket.getaddrinfo(host, _PORT, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(to)  # of a datagram's socket: the route is chosen, and nothing is sent
            address: str = probe.getsockname()[0]
    except OSError:
        return None
    return address
