"""Logs the server's address for a browser, and a warning if strangers can reach it."""

import ipaddress
import socket

import structlog

from cog_adapt.server.protocol import Kind

_ANY = ("0.0.0.0", "::")
_ROUTES: dict[Kind, str] = {"predict": "/predictions", "train": "/trainings"}
log = structlog.get_logger()


def log_playground(listener: socket.socket) -> None:
    """Log the link; a server that listens on all addresses is shown under this machine's name."""
    host, port = listener.getsockname()[:2]  # an IPv6 address has two more parts
    log.info("try the predictor in a browser", url=playground_url(host, port))


def playground_url(host: str, port: int) -> str:
    """Return the link of the page for a host and port that a server listens on."""
    return f"{server_url(host, port)}/playground"


def links_of(listener: socket.socket, mode: Kind, *, has_page: bool) -> dict[str, str]:
    """Return the addresses that a terminal shows, by their names."""
    host, port = listener.getsockname()[:2]
    links = {"address": f"{server_url(host, port)}{_ROUTES[mode]}"}
    return links | ({"page": playground_url(host, port)} if has_page else {})


def server_url(host: str, port: int) -> str:
    """Return the server's root, under this machine's name if it listens on all addresses."""
    name = "localhost" if host in _ANY else f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}"


def warn_if_open(listener: socket.socket, *, has_keys: bool) -> None:
    """Log a warning if other hosts can connect, and no key is required.

    A container listens on all addresses, and cannot see where the host publishes its ports.
    """
    host: str = listener.getsockname()[0]
    if not has_keys and not is_loopback(host):
        log.warning(
            "whoever reaches this port may use the server and read every record: no API keys are "
            "set. Set API_KEYS_FILE, or bind to 127.0.0.1 (--host 127.0.0.1; of a container "
            "publish -p 127.0.0.1:5000:5000)",
            host=host,
        )


def is_loopback(address: str) -> bool:
    """Return whether only processes of the same host can reach an IP address."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback
