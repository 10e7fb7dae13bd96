"""The routes of Replicate's API."""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cog_adapt.server.replicate import models
from cog_adapt.server.replicate.files import FileRoutes
from cog_adapt.server.replicate.naming import AdapterNaming
from cog_adapt.server.replicate.runs import RunRoutes

_MODEL = "/v1/models/{owner}/{name}"
_DEPLOYMENT = "/v1/deployments/{owner}/{name}"
_Handler = Callable[[Request], Awaitable[Response]]


def platform_routes() -> list[Route]:
    """Return the routes, for the end of an application's: a path may be another route's too."""
    naming = AdapterNaming()
    predictions, trainings = RunRoutes("predict", naming), RunRoutes("train", naming)
    files, one = FileRoutes(), "/v1/files/{file_id}"
    routes: tuple[tuple[str, str, _Handler], ...] = (
        ("POST", "/v1/predictions", predictions.create),
        ("POST", f"{_MODEL}/predictions", predictions.create),
        ("POST", f"{_DEPLOYMENT}/predictions", predictions.create),
        ("POST", f"{_MODEL}/versions/{{version}}/trainings", trainings.create),
        ("GET", "/v1/predictions/{prediction_id}/stream", predictions.stream),
        *_of_runs("/v1/predictions", "{prediction_id}", predictions),
        *_of_runs("/v1/trainings", "{training_id}", trainings),
        ("POST", "/v1/files", files.create),
        ("GET", "/v1/files", files.page),
        ("GET", one, files.show),
        ("DELETE", one, files.remove),
        ("GET", f"{one}/download", files.download),
        ("GET", _MODEL, models.model),
        ("GET", f"{_MODEL}/versions", models.versions),
        ("GET", f"{_MODEL}/versions/{{version}}", models.version),
        ("GET", _DEPLOYMENT, models.deployment),
        ("GET", "/v1/account", models.account),
        ("GET", "/v1/hardware", models.hardware),
        ("GET", "/v1/webhooks/default/secret", models.webhook_secret),
    )
    return [Route(path, handle, methods=[method]) for method, path, handle in routes]


def _of_runs(path: str, one: str, runs: RunRoutes) -> tuple[tuple[str, str, _Handler], ...]:
    return (
        ("GET", path, runs.page),
        ("GET", f"{path}/{one}", runs.show),
        ("POST", f"{path}/{one}/cancel", runs.cancel),
    )
