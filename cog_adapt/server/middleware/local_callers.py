"""Without keys, only callers on this host may destroy shared data.

A caller is local if the socket's peer is a loopback address, the request names a loopback host, and
no sign of a proxy is there. A published port of a container has the bridge's address as its peer; a
proxy adds a header, or speaks HTTP/1.0, as nginx does by default; a name that an attacker points at
127.0.0.1 is in `Host`.
"""

import re

from starlette.types import ASGIApp, Receive, Scope, Send

from cog_adapt.server.middleware.audit import note_refusal
from cog_adapt.server.middleware.peer_calls import is_from_peer
from cog_adapt.server.middleware.responses import AsgiResponse
from cog_adapt.server.process.links import is_loopback

_PASSED_ON = re.compile(
    rb"via|forwarded|x-real-ip|x-(?:original-)?forwarded(?:-.+)?|x-envoy-.+|cdn-loop"
    rb"|(?:.+-)?(?:client|connecting)-ip"
)
_PORT = re.compile(r":[0-9]*$")


class LocalCallersMiddleware:
    """Refuses irreversible requests of other hosts: every DELETE, and /shutdown.

    Args:
        app: the application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a connection."""
        if scope["type"] != "http" or not _destroys(scope) or _may_destroy(scope):
            await self._app(scope, receive, send)
            return
        note_refusal(scope, "not a local caller, and no keys are set")
        await AsgiResponse.in_json(
            403,
            f"{scope['method']} {scope['path'][:100]} is for callers on the server's own host as "
            "long as no API keys are set. Set API_KEYS_FILE, or ask http://127.0.0.1 there.",
        ).send(send)


def _destroys(scope: Scope) -> bool:
    method: str = scope["method"]
    return method == "DELETE" or (method == "POST" and scope["path"] == "/shutdown")


def _may_destroy(scope: Scope) -> bool:
    """Return whether a caller is local, here or at the server that has passed the request on."""
    return is_from_peer(scope) or is_local(scope)


def is_local(scope: Scope) -> bool:
    """Return whether a request was made on this host, without a proxy."""
    peer = scope["client"][0] if scope.get("client") else ""
    if not is_loopback(peer) or scope["http_version"] == "1.0":
        return False
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    is_passed_on = any(_PASSED_ON.fullmatch(name) for name, _ in scope["headers"])
    return not is_passed_on and all(_names_loopback(host.decode("latin-1")) for host in hosts)


def _names_loopback(host: str) -> bool:
    name = _PORT.sub("", host.lower())
    return name == "localhost" or is_loopback(name.strip("[]"))
