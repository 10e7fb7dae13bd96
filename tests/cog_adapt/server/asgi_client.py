"""Asks an ASGI application one thing, with nothing in between; or serves it on a real socket."""

import asyncio
import contextlib
import json
import socket
import threading
from dataclasses import dataclass

import uvicorn

from cog_adapt.server.middleware.connection_limits import BoundedProtocol
from tests.cog_adapt.waiting import wait_until


@dataclass
class Answer:
    status: int
    headers: dict
    body: bytes

    @property
    def error(self):
        return json.loads(self.body)["error"]


def ask(app, method="GET", path="/", headers=None, parts=(b"",), client=("192.0.2.1", 1)):
    """Ask once; `parts` are the pieces of the body, a number among them is a pause in seconds."""
    return asyncio.run(asked(app, method, path, headers, parts, client))


async def asked(app, method="GET", path="/", headers=None, parts=(b"",), client=("192.0.2.1", 1)):
    pieces, sent = list(parts), []

    async def receive():
        while pieces and not isinstance(pieces[0], bytes):
            await asyncio.sleep(pieces.pop(0))
        if not pieces:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method}
    scope |= {"path": path, "raw_path": path.encode(), "query_string": b"", "root_path": ""}
    scope |= {"scheme": "http", "client": client, "server": ("test", 80)}
    scope["headers"] = [(n.lower().encode(), v.encode()) for n, v in (headers or {}).items()]
    await app(scope, receive, send)
    start, *bodies = sent
    names = {name.decode(): value.decode() for name, value in start["headers"]}
    return Answer(start["status"], names, b"".join(part.get("body", b"") for part in bodies))


@contextlib.contextmanager
def served(app, protocol=BoundedProtocol):
    """The address at which uvicorn serves the application."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        app, http=protocol, ws="none", loop="uvloop", lifespan="off", log_level="critical"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        wait_until(lambda: server.started)
        yield listener.getsockname()
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()
    assert not thread.is_alive()
