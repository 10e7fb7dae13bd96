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
from tests.cog_adapt.server.asgi_client import asked


def leaves(error):
    return {
        leaf for kind in error.__subclasses__() for leaf in (leaves(kind) or {kind})
    }  # of the tree in errors.py alone


def test_every_leaf_of_the_tree_has_a_status():
    ours = {leaf for leaf in leaves(errors.RequestError) if leaf.__module__ == errors.__name__}
    assert set(STATUSES) == ours


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.NotFound, 404),
        (errors.NotStreamable, 406),
        (errors.InvalidRequest, 422),
        (errors.BudgetSpent, 429),
        (errors.QueueFull, 429),
        (errors.TooManyReaders, 429),
        (errors.NotReady, 503),
        (errors.NotRecorded, 503),
    ],
)
def test_each_error_has_its_status_and_says_why(error, status):
    has_time = error in (errors.QueueFull, errors.BudgetSpent)
    made = error("why", 7) if has_time else error("why")
    answer = error_response(made, strict=False)
    assert answer.status_code == status
    body = json.loads(bytes(answer.body))
    if status == 422:
        assert body == {"detail": [{"loc": ["body"], "msg": "why", "type": "value_error"}]}
    else:
        assert body == {"error": "why"} | ({"status": "failed"} if status != 406 else {})
    later = {errors.NotReady: "5", errors.NotRecorded: "1", errors.TooManyReaders: "1"}
    assert answer.headers.get("retry-after") == ("7" if has_time else later.get(error))
    assert (status in (429, 503)) is ("retry-after" in answer.headers)


def test_cog_does_not_say_when_to_try_again():
    answer = error_response(errors.NotReady("why"), strict=True)
    assert "retry-after" not in answer.headers


def test_a_wrong_shape_has_pydantics_word():
    error = errors.ShapeError("why", ("body", "id"), "type_error")
    (problem,) = json.loads(bytes(error_response(error, strict=False).body))["detail"]
    assert (problem["type"], problem["loc"]) == ("type_error", ["body", "id"])


def raised(error, *, strict=False, method="GET", path="/"):
    app = FastAPI(exception_handlers=exception_handlers(strict=strict), openapi_url=None)

    async def fail():
        if error is not None:
            raise error

    app.add_api_route("/", fail, methods=["GET"])
    app.add_api_route("/", fail, methods=["POST"])
    return asyncio.run(asked(app, method, path))


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


MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


def shown(**values):
    record = Record(id="a", kind="predict", status="starting", created_at=MOMENT, **values)
    return json.loads(encode(record_body(record)))


def test_a_record_shows_what_is_known():
    assert shown() == {
        "id": "a",
        "status": "starting",
        "input": {},
        "output": None,
        "logs": "",
        "metrics": {},
        "created_at": "2026-01-01T00:00:00Z",
    }
    whole = shown(
        started_at=MOMENT,
        completed_at=MOMENT,
        input='{"a":1}',
        output="[1]",
        error="boom",
        logs="x",
        metrics='{"m":2}',
    )
    assert (whole["input"], whole["output"], whole["metrics"]) == ({"a": 1}, [1], {"m": 2})
    assert (whole["error"], whole["logs"]) == ("boom", "x")
    assert whole["started_at"] == whole["completed_at"] == whole["created_at"]


def test_an_error_of_ones_own_has_the_status_of_what_it_is_derived_from():
    class Exhausted(errors.AtCapacity):
        """One's own."""

    assert error_response(Exhausted("no more today"), strict=False).status_code == 409
