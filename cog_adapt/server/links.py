"""Logs where the server is reached: by a browser, and by strangers where nothing keeps them out."""

import ipaddress
import socket

import structlog

_ANY = ("0.0.0.0", "::")
log = structlog.get_logger()


def log_playground(listener: socket.socket) -> None:
    """Log the link; a server that listens everywhere is shown at this machine's own name."""
    host, port = listener.getsockname()[:2]  # IPv6 has two more
    log.info("try the predictor in a browser", url=playground_url(host, port))


def playground_url(host: str, port: int) -> str:
    """Return the link for a host and port that a server listens on."""
    name = "localhost" if host in _ANY else f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/playground"


def warn_if_open(listener: socket.socket, *, has_keys: bool) -> None:
    """Log a warning where others than this host's processes can connect, and no key is asked for.

    A container listens everywhere, and does not see which of its ports the host publishes to whom.
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
    """Return whether an IP address is reached by processes of the same host alone."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback
