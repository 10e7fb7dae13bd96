"""From what is raised to answers in Cog's shapes."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from cog_adapt.server import errors
from cog_adapt.server.api.responses import (
    STATUSES,
    error_response,
    exception_handlers,
    record_body,
)
from cog_adapt.server.records import Record
from cog_adapt.server.service.prediction import encode
from tests.cog_adapt.server.asgi_client import ask


def leaves(error):
    return {
        leaf for kind in error.__subclasses__() for leaf in (leaves(kind) or {kind})
    }  # of the tree in errors.py alone


def test_every_leaf_of_the_tree_has_a_status():
    ours = {leaf for leaf in leaves(errors.RequestError) if leaf.__module__ == errors.__name__}
    assert set(STATUSES) == ours


@pytest.mark.parametrize(
    ("error", "status", "seconds"),
    [
        (errors.NotFound("why"), 404, None),
        (errors.BudgetSpent("why", 7), 429, "7"),
        (errors.QueueFull("why", 7), 429, "7"),
        (errors.NotReady("why"), 503, "5"),
        (errors.NotRecorded("why"), 503, "1"),
    ],
)
def test_each_error_has_its_status_and_says_why(error, status, seconds):
    answer = error_response(error, strict=False)
    assert (answer.status_code, answer.headers.get("retry-after")) == (status, seconds)
    assert json.loads(bytes(answer.body)) == {"error": "why", "status": "failed"}


def test_cog_does_not_say_when_to_try_again():
    answer = error_response(errors.NotReady("why"), strict=True)
    assert "retry-after" not in answer.headers


def test_a_wrong_shape_has_pydantics_word():
    error = errors.ShapeError("why", ("body", "id"), "type_error")
    (problem,) = json.loads(bytes(error_response(error, strict=False).body))["detail"]
    assert (problem["type"], problem["loc"]) == ("type_error", ["body", "id"])


def raised(error):
    app = FastAPI(exception_handlers=exception_handlers(strict=False), openapi_url=None)

    async def fail():
        raise error

    app.add_api_route("/", fail)
    return ask(app)


@pytest.mark.parametrize("error", [errors.StorageError("full"), errors.TakenOverError("full")])
def test_a_database_that_cannot_be_used_now_is_503(error):
    answer = raised(error)
    assert (answer.status, answer.error) == (503, "the records cannot be used: full")


def test_nobody_reads_the_answer_to_who_is_gone():
    assert raised(ClientDisconnect()).status == 499


def test_another_error_of_http_has_its_own_words():
    assert raised(HTTPException(418, "short")).error == "short"


def test_a_fault_of_ours_is_admitted_and_logged(capfd):
    app = FastAPI(exception_handlers=exception_handlers(strict=False))
    handler: Any = app.exception_handlers[Exception]
    request = type("Request", (), {"url": type("URL", (), {"path": "/x"})})
    answer = asyncio.run(handler(request, ZeroDivisionError()))
    assert answer.status_code == 500
    assert json.loads(bytes(answer.body)) == {
        "error": "the server has a fault; see its log",
        "status": "failed",
    }
    assert "request failed" in capfd.readouterr().out


def test_a_record_shows_what_is_known():
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    record = Record(id="a", kind="predict", status="starting", created_at=moment)
    assert json.loads(encode(record_body(record))) == {
        "id": "a",
        "status": "starting",
        "input": {},
        "output": None,
        "logs": "",
        "metrics": {},
        "created_at": "2026-01-01T00:00:00Z",
    }


def test_an_error_of_ones_own_has_the_status_of_what_it_is_derived_from():
    class Exhausted(errors.AtCapacity):
        """One's own."""

    assert error_response(Exhausted("no more today"), strict=False).status_code == 409
