"""The endpoints over the dispatchers of a harness, asked without a socket."""

import asyncio
import json
from typing import Any

import msgspec
from cog import ConcatenateIterator
from fastapi import FastAPI

from cog_adapt.server.api import forgetting, health, playground
from cog_adapt.server.api.adapters import AdapterRoutes
from cog_adapt.server.api.dependencies import ServerParts
from cog_adapt.server.api.forgetting import ForgettingRoutes
from cog_adapt.server.api.history import HistoryRoutes
from cog_adapt.server.api.predictions import PredictionRoutes
from cog_adapt.server.api.responses import exception_handlers
from cog_adapt.server.files.signed_urls import SignedUrls
from cog_adapt.server.protocol import Described, Finished, Output
from cog_adapt.server.schema.openapi import openapi_schema
from cog_adapt.server.service.adapters import AdapterService
from cog_adapt.server.service.health import HealthMonitor
from cog_adapt.server.telemetry.metrics import Metrics
from tests.cog_adapt.server.asgi_client import Answer
from tests.cog_adapt.server.service.harness import Harness


def predict(text: str = "t") -> ConcatenateIterator[str]:
    yield text


def document(*, streams=True):
    schema = openapi_schema(predict)
    schema["paths"]["/predictions"]["post"]["x-cog-streaming"] = streams
    schemas = schema["components"]["schemas"]
    schemas["TrainingInput"] = schemas["Input"]
    return msgspec.json.encode(schema)


class Site:
    """One server's endpoints."""

    def __init__(self, folder, **settings):
        self.harness = Harness(folder, **settings)
        self.service, self.model = self.harness.service, self.harness.model
        self.lead = self.harness.dispatcher.lead
        self.lead.description = Described(document(), 1, is_async=False)
        self.metrics = Metrics()
        self.shutdowns: list[Any] = []
        self.monitor = HealthMonitor(self.service)
        self.app = FastAPI(
            exception_handlers=exception_handlers(strict=self.harness.settings.strict_cog),
            openapi_url=None,
        )
        for kind in ("predict", "train"):
            PredictionRoutes(kind).add_to(self.app)
            self.app.router.routes.extend(HistoryRoutes(kind).router().routes)
            self.app.router.routes.extend(ForgettingRoutes(kind).router().routes)
        self.app.router.routes.extend(forgetting.router.routes)
        self.app.router.routes.extend(health.router.routes)
        self.app.router.routes.extend(playground.router.routes)
        self.app.router.routes.extend(AdapterRoutes().router().routes)
        self.app.state.parts = ServerParts(
            self.harness.settings,
            self.service,
            self.monitor,
            self.harness.webhooks,
            self.metrics,
            lambda: self.shutdowns.append(1),
            AdapterService(self.service),
            SignedUrls(self.harness.settings.data_dir),
        )

    def put_out(self, name, *chunks, status="succeeded", **more):
        """End a prediction as its worker would."""
        for chunk in chunks:
            self.lead.on_report(Output(name, chunk))
        self.lead.on_report(Finished(name, status, is_list=True, **more))

    async def ask(self, method, path, body=None, *, leave=None, key=None, query="", **headers):
        """Ask once, by a client that stays until `leave` is set."""
        is_file = isinstance(body, bytes)
        content = b"" if body is None else body if is_file else json.dumps(body).encode()
        pieces, sent = [content], []

        async def receive():
            if pieces:
                return {"type": "http.request", "body": pieces.pop(), "more_body": False}
            await (leave or asyncio.Event()).wait()
            return {"type": "http.disconnect"}

        async def send(message):
            sent.append(message)

        if body is not None and not is_file:
            headers.setdefault("content_type", "application/json")
        scope: dict[str, Any] = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1"}
        scope |= {"method": method, "path": path, "raw_path": path.encode(), "root_path": ""}
        scope |= {"scheme": "http", "client": ("192.0.2.1", 1), "server": ("test", 80)}
        scope |= {"query_string": query.encode(), "state": {"key": key} if key else {}}
        scope["headers"] = [(n.replace("_", "-").encode(), v.encode()) for n, v in headers.items()]
        await self.app(scope, receive, send)
        start, *bodies = sent
        names = {name.decode(): value.decode() for name, value in start["headers"]}
        return Answer(start["status"], names, b"".join(each.get("body", b"") for each in bodies))

    def asking(self, *args, **more):
        """The same, under way."""
        return asyncio.ensure_future(self.ask(*args, **more))
