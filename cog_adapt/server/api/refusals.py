"""Splits a refusal into status, message and field, for routes that answer in another form."""

from typing import Any, NamedTuple

from fastapi.exceptions import RequestValidationError

from cog_adapt.server.api.responses import status_of
from cog_adapt.server.errors import InvalidRequest, RequestError, ShapeError
from cog_adapt.server.schema.problems import InvalidInputs

_MOST_CHARACTERS = 100  # of a value in a message


class Refusal(NamedTuple):
    """Why a request is not accepted.

    Attributes:
        status: the HTTP status with which the server's own routes answer.
        message: the reason, and the remedy.
        field: the name of the wrong field; None if the request as a whole is refused.
        retry_after: seconds after which another try makes sense; None if unknown or never.
    """

    status: int
    message: str
    field: str | None = None
    retry_after: int | None = None


def refusal_of(error: RequestError | RequestValidationError) -> Refusal:
    """Return the refusal for an error that `start_prediction` or FastAPI has raised."""
    if isinstance(error, RequestValidationError):
        return _of_body(error.errors()[0])
    if isinstance(error, InvalidInputs):
        first = error.problems[0]
        field = first.loc[-1] if len(first.loc) > 2 else None
        return Refusal(422, f"{field}: {first.msg}" if field else first.msg, field)
    location = error.location if isinstance(error, InvalidRequest | ShapeError) else ()
    field = location[-1] if location else None
    return Refusal(
        status=status_of(error), message=str(error), field=field, retry_after=error.retry_after
    )


def _of_body(problem: dict[str, Any]) -> Refusal:
    """Return the first problem of a body, with the value that is wrong."""
    if problem["type"] == "json_invalid":
        return Refusal(422, f"the body is not JSON: {problem['ctx']['error']}. Correct it.")
    field = ".".join(str(each) for each in problem["loc"][1:]) or None
    if problem["type"] == "missing" or field is None:
        return Refusal(422, f"{field or 'the body'}: {problem['msg']}", field)
    value = repr(problem.get("input"))
    shown = value if len(value) <= _MOST_CHARACTERS else f"{value[:_MOST_CHARACTERS]}…"
    return Refusal(422, f"{field} is {shown}: {problem['msg']}", field)
