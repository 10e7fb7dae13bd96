"""What routes are given, by their types."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import FastAPI

from cog_adapt.server.api.dependencies import (
    AdaptersDep,
    MetricsDep,
    MonitorDep,
    PredictionIdDep,
    ServerParts,
    ServiceDep,
    ShutDownDep,
    WebhooksDep,
    parts_in,
    parts_of,
)
from cog_adapt.server.api.responses import exception_handlers
from tests.cog_adapt.server.asgi_client import ask


@pytest.fixture
def app():
    app = FastAPI(exception_handlers=exception_handlers(strict=False))
    names: Any = (f"the {name}" for name in ServerParts.__annotations__)
    app.state.parts = ServerParts(*names)
    return app


def test_each_part_is_given_by_its_type(app):
    @app.get("/")
    async def all_parts(
        service: ServiceDep,
        monitor: MonitorDep,
        webhooks: WebhooksDep,
        metrics: MetricsDep,
        shut_down: ShutDownDep,
        adapters: AdaptersDep,
    ) -> list[Any]:
        return [service, monitor, webhooks, metrics, shut_down, adapters]

    names = ["service", "monitor", "webhooks", "metrics", "shut_down", "adapters"]
    assert json.loads(ask(app).body) == [f"the {name}" for name in names]


@pytest.mark.parametrize(
    ("path", "found"), [("/x/abc", "abc"), ("/x/a%2Fb", "a/b"), ("/x/%C3%A9", "é")]
)
def test_an_id_in_a_path_is_decoded(app, path, found):
    @app.get("/x/{prediction_id}")
    async def show(prediction_id: PredictionIdDep) -> str:
        return prediction_id

    assert json.loads(ask(app, path=path).body) == found


def test_an_id_that_is_no_utf_8_is_refused(app):
    @app.get("/x/{prediction_id}")
    async def show(prediction_id: PredictionIdDep) -> str:
        return prediction_id

    answer = ask(app, path="/x/%ff")
    assert (answer.status, answer.error) == (400, "Invalid URL: Invalid UTF-8 in `id`")


def test_the_parts_are_those_of_the_application(app):
    request: Any = SimpleNamespace(app=app)
    assert parts_in(app) is parts_of(request) is app.state.parts
