"""One replica: the server with its middlewares, as `python -m server` builds it."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import NoReturn

from starlette.types import ASGIApp, Receive, Scope, Send

from cog_adapt.server.api.dependencies import ServerParts, parts_in
from cog_adapt.server.assembly import BuiltServer, build_server
from cog_adapt.server.command.serve import build_app
from cog_adapt.server.errors import Forbidden
from cog_adapt.server.http_server import PeerServer
from cog_adapt.server.main import start_settings, worker_configs
from cog_adapt.server.middleware.responses import AsgiResponse
from cog_adapt.server.process.own_url import own_url
from deploy.ray.options import Options

PROJECT = Path(__file__).resolve().parents[2]
_PAUSE = 0.05  # s between looks at the worker
_VIA = (b"via", b"1.1 ray-serve")
_NO_SHUTDOWN = (
    "this server is a replica of Ray Serve, which would start another in its place. End all "
    "replicas by `serve shutdown`; change their number by min_replicas and max_replicas."
)


class WholeServer:
    """The class of the deployment: Ray Serve calls each of its methods on one event loop.

    Args:
        options: of the application.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._built: BuiltServer | None = None
        self._refusal = ""

    def __serve_build_asgi_app__(self) -> ASGIApp:
        """Build the server of this project's folder.

        Raises:
            ConfigError: a setting or an option cannot be used.
        """
        os.chdir(PROJECT)  # paths in settings and in cog.yaml are relative to the project
        drain = self._options.drain_seconds
        settings = start_settings().model_copy(update={"drain_seconds": drain})
        self._options.check_shared(settings)
        # Ray opens the port of this replica, if any, only once it has registered itself
        listener = socket.create_server(("", 0))
        self._built = build_server(
            settings,
            worker_configs(settings, "predict", None),
            mode="predict",
            build=build_app,
            shut_down=refuse_shutdown,
            refuse=self._refuse,
            url=own_url(listener, settings.server_url, settings.database_url),
        )
        peers = PeerServer(self._built.asgi, settings)
        return behind_proxy(self._built.asgi, partial(_serving, peers, listener))

    async def check_health(self) -> None:
        """Wait for the end of the first setup; Ray replaces a replica whose check fails.

        A worker that is restarted after a crash, and a database that is away, fail `/readyz` alone:
        another replica would not help, and this one still holds its runs.

        Raises:
            RuntimeError: this server cannot serve, with the reason.
        """
        if self._refusal:
            raise RuntimeError(self._refusal)
        parts = self._parts
        while parts.service.worker.state in ("idle", "starting") and not parts.service.is_ready:
            await asyncio.sleep(_PAUSE)
        _, state = await parts.monitor.readiness()
        if not parts.service.is_ready:
            raise RuntimeError(parts.service.why_not_ready)
        if "user_healthcheck_error" in state or "self_test" in state:
            raise RuntimeError(f"the model is not fit to serve: {state}")

    async def record_autoscaling_stats(self) -> dict[str, float]:
        """Return the numbers that the scaling policy reads."""
        waiting = adaptations = 0
        for dispatcher in self._parts.service.dispatchers.values():
            waiting += len(dispatcher.waiting)
            for worker in dispatcher.workers:
                is_training = dispatcher.kind == "train"
                adaptations += sum(
                    is_training or "adaptation" in run.metrics for run in worker.running.values()
                )
        return {"waiting": float(waiting), "adaptations": float(adaptations)}

    def _refuse(self, reason: str) -> None:
        """Fail all later health checks, so that Ray ends this replica."""
        self._refusal = reason

    @property
    def _parts(self) -> ServerParts:
        if self._built is None:
            raise RuntimeError("Ray Serve has not built the application of this replica.")
        return parts_in(self._built.app)


def refuse_shutdown() -> NoReturn:
    """Refuse to end the server.

    Raises:
        Forbidden: always.
    """
    raise Forbidden(_NO_SHUTDOWN)


def behind_proxy(app: ASGIApp, beside: Callable[[], AbstractAsyncContextManager[None]]) -> ASGIApp:
    """Return the application for requests that come through Ray's proxy.

    The peer of each request is the proxy, often on the same host; a header says so, since callers
    on the server's own host may do more where no keys are set. Nobody may end one replica.

    Args:
        app: the server.
        beside: entered for as long as the server lives.
    """

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            async with beside():
                await app(scope, receive, send)
        elif (scope.get("method"), scope["path"]) == ("POST", "/shutdown"):
            await AsgiResponse.in_json(403, _NO_SHUTDOWN).send(send)
        else:
            await app({**scope, "headers": [*scope["headers"], _VIA]}, receive, send)

    return answer


@asynccontextmanager
async def _serving(peers: PeerServer, listener: socket.socket) -> AsyncIterator[None]:
    """Answer the other servers of the database."""
    with listener:
        task = asyncio.get_running_loop().create_task(peers.serve([listener]))
        try:
            yield
        finally:
            peers.should_exit = True
            await task
