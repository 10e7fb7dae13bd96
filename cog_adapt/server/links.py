"""Logs the address at which a browser finds the playground."""

import socket

import structlog

_ANY = ("0.0.0.0", "::")
log = structlog.get_logger()


def log_playground(listener: socket.socket) -> None:
    """Log the link; a server that listens everywhere is shown at this machine's own name."""
    log.info("try the predictor in a browser", url=playground_url(*listener.getsockname()[:2]))


def playground_url(host: str, port: int) -> str:
    """Return the link for a host and port that a server listens on."""
    name = "localhost" if host in _ANY else f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/playground"
