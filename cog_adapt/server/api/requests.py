"""From a request to an order, in the sequence of Cog's checks.

JSON, the id in the path, whether that id is known, streams, inputs, readiness, room.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import ClientDisconnect, Request

from cog_adapt.server.api.body import (
    BodyError,
    Refused,
    RequestBody,
    check_id,
    read_body,
    read_input,
)
from cog_adapt.server.protocol import NOUNS, Kind
from cog_adapt.server.schema.mirror_components import DURATION
from cog_adapt.server.schema.validation import Problem
from cog_adapt.server.service.prediction import PredictionRequest, digest_of, encode, new_id
from cog_adapt.server.service.service import NOT_READY, PredictionService

EVENT_STREAM = "text/event-stream"
_WAIT = re.compile(r"wait(?:=(\d+))?")
_DURATION = re.compile(DURATION)
_UNITS = {None: 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_MOST_RETRIES = 10
_PASSED_ON = ("traceparent", "tracestate")


class InvalidInputs(Exception):
    """The inputs do not fit the model.

    Attributes:
        problems: each of them.
    """

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__(f"{len(problems)} inputs do not fit")
        self.problems = problems


@dataclass(frozen=True)
class Preferences:
    """How a client wants its answer.

    Attributes:
        is_stream: as server-sent events.
        is_async: at once, without the outcome.
        wait: or after so many seconds at most; None: for as long as it takes.
        cancel_after: seconds until the prediction is cancelled; None: never.
    """

    is_stream: bool = False
    is_async: bool = False
    wait: float | None = None
    cancel_after: float | None = None


def read_headers(request: Request) -> dict[str, str]:
    """The headers, by lower-case name; of several the first counts, as Starlette has it."""
    return {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in reversed(request.scope["headers"])
    }


def read_preferences(headers: Mapping[str, str], *, strict: bool) -> Preferences:
    """What the headers Accept, Prefer and Cancel-After ask for; Cog knows `respond-async` alone.

    Raises:
        Refused: 422, Cancel-After is no time.
    """
    seconds = _read_duration(headers.get("cancel-after"))
    if EVENT_STREAM in headers.get("accept", ""):
        return Preferences(is_stream=True, cancel_after=seconds)
    prefer = headers.get("prefer", "")
    if strict or prefer in ("", "respond-async"):
        return Preferences(is_async=prefer == "respond-async", cancel_after=seconds)
    wishes = [options.strip().lower() for options in prefer.split(",")]
    waits = [match for options in wishes if (match := _WAIT.fullmatch(options))]
    if waits and waits[0][1]:
        return Preferences(wait=float(waits[0][1]), cancel_after=seconds)
    return Preferences(is_async="respond-async" in wishes, cancel_after=seconds)


class RequestParser:
    """Reads requests for one kind.

    Args:
        service: where they go.
        kind: prediction or training, by the path; it says what inputs must look like.
        runs: what runs; Cog's server in train mode trains, whatever the path.
    """

    def __init__(self, service: PredictionService, kind: Kind, runs: Kind) -> None:
        self._service, self.kind, self._runs = service, kind, runs
        self._strict = service.settings.strict_cog

    async def request_body(self, request: Request, name: str | None = None) -> RequestBody:
        """The body of a request; the id in the path is the prediction's.

        Raises:
            Refused: it is none, names another id, or a webhook that could never be sent.
        """
        content_type = request.headers.get("content-type")
        body = b"" if self._strict and content_type is None else await _read_body(request)
        request_body = read_body(body, content_type, strict=self._strict)
        if name is not None:
            if request_body.id is not None and request_body.id != name:
                word = NOUNS[self.kind]
                reason = f"{word} ID must match the ID supplied in the URL"
                raise Refused(422, reason, ("body", "id"))
            request_body.id = name
        if request_body.id is not None and not self._strict:
            check_id(request_body.id)
        if not 0 <= request_body.retries <= _MOST_RETRIES:
            reason = f"retries is {request_body.retries}; allowed: 0 to {_MOST_RETRIES}."
            raise BodyError(422, reason, ("body", "retries"))
        self._check_webhook(request_body.webhook, request)
        return request_body

    def check_stream(self, preferences: Preferences) -> None:
        """Refuse a stream from what cannot give one.

        Raises:
            Refused: 406.
        """
        if not preferences.is_stream:
            return
        if self.kind == "train":
            raise Refused(406, "Training endpoints do not support streaming responses.")
        operation = self._service.schema().get("paths", {}).get("/predictions", {}).get("post", {})
        if not operation.get("x-cog-streaming"):
            raise Refused(
                406,
                "This model does not support streaming responses. "
                "Add @cog.streaming to predict() to enable SSE.",
            )

    def prediction_request(
        self, request_body: RequestBody, headers: Mapping[str, str], preferences: Preferences
    ) -> PredictionRequest:
        """What to run.

        Raises:
            Refused: 503 not ready.
            InvalidInputs: 422.
        """
        if not self._service.is_ready or self._service.is_closing:
            raise Refused(503, NOT_READY)
        known = self._read_known(request_body)
        validator = self._service.validator(self.kind)
        raw = encode(known)
        has_secrets = validator.has_secrets(known)
        durable = (
            preferences.is_async or preferences.wait is not None or request_body.webhook is not None
        )
        return PredictionRequest(
            id=new_id() if request_body.id is None else request_body.id,
            kind=self._runs,
            input=raw,
            redacted_input=encode(validator.redacted(known)) if has_secrets else raw,
            context=request_body.context,
            webhook=request_body.webhook,
            events=request_body.events,
            durable=durable,
            has_client_id=request_body.id is not None,
            repeatable=not has_secrets,
            retries=request_body.retries,
            timeout=preferences.cancel_after,
            headers={name: headers[name] for name in _PASSED_ON if name in headers},
        )

    def _check_webhook(self, url: str | None, request: Request) -> None:
        """Cog ignores a URL that is none; so do we in its name."""
        fault = None if url is None else request.app.state.webhooks.find_fault(url)
        if fault is not None and not self._strict:
            raise Refused(422, f"webhook: {fault}", ("body", "webhook"))

    def digest(self, request_body: RequestBody) -> str:
        """The digest of an envelope's inputs, as in its order.

        Raises:
            InvalidInputs: 422.
        """
        return digest_of(encode(self._read_known(request_body)))

    def _read_known(self, request_body: RequestBody) -> dict[str, Any]:
        inputs = read_input(request_body)
        try:
            validator = self._service.validator(self.kind)
        except KeyError as error:
            raise Refused(
                503,
                f"the code for {NOUNS[self.kind]}s does not load; why is in setup.logs of "
                "GET /health-check.",
            ) from error
        problems = validator.problems(inputs, len(request_body.input))
        if problems:
            raise InvalidInputs(problems)
        return validator.known(inputs)


async def _read_body(request: Request) -> bytes:
    """The body; most come in one message, which Starlette's way costs twice the time.

    Raises:
        ClientDisconnect: the client has left before its end.
    """
    parts: list[bytes] = []
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _read_duration(text: str | None) -> float | None:
    if text is None:
        return None
    match = _DURATION.fullmatch(text)
    if match is None:
        raise Refused(
            422,
            f"Cancel-After is {text[:20]!r}; allowed: a time such as 30s, 5m or 1h.",
            ("header", "cancel-after"),
        )
    return float(match[1]) * _UNITS[match[2]]
