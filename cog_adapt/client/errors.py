"""The errors of the client, a class for each kind; docs/client.md has them by HTTP status."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import httpx2

from cog_adapt.client.run import Run

_SHOWN = 500  # characters of an answer that is no JSON


class Problem(NamedTuple):
    """One value that is refused.

    Attributes:
        field: its path in the inputs, such as `examples.3.label`.
        value: as it was sent; None if the field is missing.
        reason: the server's words.
    """

    field: str
    value: object
    reason: str


class ClientError(Exception):
    """Anything that a server or the client refuses or cannot do.

    Attributes:
        status: the HTTP status; None if there was no refusing answer.
        detail: the answer's JSON, or its text.
    """

    def __init__(
        self,
        message: str,
        status: int | None = None,
        detail: Any = None,  # noqa: ANN401 - what a server answers
    ) -> None:
        super().__init__(message)
        self.status = status
        self.detail = detail


class RefusedInput(ClientError, ValueError):
    """A value is not allowed.

    Attributes:
        problems: each refused value; at least one.
    """

    def __init__(
        self,
        problems: Sequence[Problem],
        status: int | None = None,
        detail: object = None,
    ) -> None:
        lines = (f"{each.field}: {each.reason}" for each in problems)
        super().__init__("\n".join(lines), status, detail)
        self.problems = tuple(problems)

    @property
    def field(self) -> str:
        """The path of the first refused value."""
        return self.problems[0].field

    @property
    def value(self) -> object:
        """The first refused value."""
        return self.problems[0].value


class BadRequest(ClientError):
    """The server does not take such a request: its path, method, or media type."""


class Unauthorized(ClientError):
    """There is no key, the server does not know the key, or the key lacks a scope."""


class NotFound(ClientError):
    """There is no such run or adapter, or it belongs to another owner."""


class Conflict(ClientError):
    """The id belongs to a run with another input, or the run has not ended."""


class RequestTooLarge(ClientError):
    """The body, or a file, is larger than the server allows; the message names the limit."""


class TimedOut(ClientError):
    """The body came too slowly, or a part of the server did not answer in its time."""


class StorageFull(ClientError):
    """The server's disk, or a budget of it, is full."""


class ServerFault(ClientError):
    """The server or the predictor has a fault; the server's log has the cause."""


class Busy(ClientError):
    """The server has no room now.

    Attributes:
        retry_after: seconds after which another try makes sense; None if unknown.
    """

    retry_after: float | None = None


class Unreachable(ClientError):
    """No answer came: the server cannot be reached, or the connection was cut."""


class NotReady(ClientError):
    """The server's setup has failed, or takes too long."""


class RunFailed(ClientError):
    """The run has not succeeded.

    Attributes:
        run: with its error, logs and metrics; `detail` is its record.
    """

    def __init__(self, run: Run) -> None:
        reason = f": {run.error}" if run.error else ""
        super().__init__(f"{run.id} {run.status}{reason}", None, run.record)
        self.run = run


class RunCanceled(RunFailed):
    """The run was canceled, by a request or at its deadline."""


class FileNotWritten(ClientError):
    """A download cannot be written."""


_KINDS: dict[int, type[ClientError]] = {
    **dict.fromkeys((401, 403), Unauthorized),
    404: NotFound,
    **dict.fromkeys((408, 504), TimedOut),
    409: Conflict,
    413: RequestTooLarge,
    **dict.fromkeys((429, 503), Busy),
    507: StorageFull,
}


def _kind_of(status: int) -> type[ClientError]:
    others = {4: BadRequest, 5: ServerFault}.get(status // 100, ClientError)
    return _KINDS.get(status, others)


def error_of(response: httpx2.Response, inputs: Mapping[str, Any]) -> ClientError:
    """Make the error for an answer that was read and is no success.

    Args:
        response: the answer.
        inputs: the sent inputs, in which the refused values are looked up.
    """
    answer, code = json_of(response), response.status_code
    detail = answer.get("detail", answer.get("error")) if isinstance(answer, dict) else None
    sent = response.text[:_SHOWN] if answer is None else answer
    if code == 422:
        return RefusedInput(_problems(detail or sent, inputs), code, sent)
    message = detail if isinstance(detail, str) else response.text[:_SHOWN]
    where = f"{response.request.method} {response.request.url} was answered {code}"
    error = _kind_of(code)(f"{where}: {message or response.reason_phrase}", code, sent)
    if isinstance(error, Busy):
        after = response.headers.get("retry-after", "")
        error.retry_after = float(after) if after.isdigit() else None
        error.args = (f"{error} Try again in {after or 'some'} s.",)
    return error


def json_of(response: httpx2.Response) -> Any:  # noqa: ANN401 - what a server answers
    """Return the JSON of an answer; None if it has none."""
    try:
        return response.json()
    except ValueError:
        return None


def _problems(detail: object, inputs: Mapping[str, Any]) -> list[Problem]:
    if not isinstance(detail, list):
        return [Problem("request", None, str(detail))]
    return [_problem(each, inputs) for each in detail]


def _problem(detail: dict[str, Any], inputs: Mapping[str, Any]) -> Problem:
    place = [step for part in detail.get("loc", ()) for step in str(part).split("/")]
    for prefix in ("body", "input"):
        if place[:1] == [prefix]:
            place.pop(0)
    value: Any = inputs
    for step in place:
        value = _part(value, step)
    reason = detail.get("msg", "is not allowed")
    return Problem(".".join(place) or "input", value if place else None, reason)


def _part(value: object, step: str) -> object:
    if isinstance(value, Mapping):
        return value.get(step)
    is_within = isinstance(value, list | tuple) and step.isdigit() and int(step) < len(value)
    return value[int(step)] if isinstance(value, list | tuple) and is_within else None
