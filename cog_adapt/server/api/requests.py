"""Turns an HTTP request into a prediction request, in the sequence of Cog's checks.

The checks are: JSON, the id in the path, whether it is known, streams, readiness, inputs, room. The
headers Accept, Prefer (RFC 7240) and Cancel-After give the form of the answer.
"""

import re
from collections.abc import Mapping, Sequence

import msgspec
from starlette.requests import Request

from cog_adapt.server.api.body import Inputs, RequestBody, check_id, fit_inputs, read_body
from cog_adapt.server.api.dependencies import key_of, owner_of
from cog_adapt.server.api.large_bodies import LARGE_BYTES, LargeBodies, ReadingJob
from cog_adapt.server.api.shapes import DURATION
from cog_adapt.server.errors import (
    InvalidRequest,
    NotReady,
    NotStreamable,
    ShapeError,
)
from cog_adapt.server.protocol import NOUNS, Kind, owned
from cog_adapt.server.schema.problems import InvalidInputs, Problem
from cog_adapt.server.schema.validation import InputValidator
from cog_adapt.server.service.prediction import PredictionSpec, new_id
from cog_adapt.server.service.service import COMPONENTS, NOT_SET_UP, PredictionService
from cog_adapt.server.webhooks import Webhooks

_EVENT_STREAM = "text/event-stream"
_MOST_RETRIES = 10
PASSED_ON = ("traceparent", "tracestate")
_WAIT = re.compile(r"wait(?:=(\d+))?")
_DURATION = re.compile(DURATION)
_UNITS = {None: 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class RequestParser:
    """Reads requests for one kind.

    Args:
        service: runs the requests.
        webhooks: knows the URLs that can never be reached.
        kind: prediction or training, by the path; it determines the schema of the inputs.
        runs: the kind that runs; Cog's server in train mode trains on either path.
        large: reads large bodies.
    """

    def __init__(
        self,
        service: PredictionService,
        webhooks: Webhooks,
        kind: Kind,
        runs: Kind,
        large: LargeBodies,
    ) -> None:
        self._service = service
        self._webhooks = webhooks
        self.kind = kind
        self._runs = runs
        self._strict = service.settings.strict_cog
        self._large = large

    async def read(self, request: Request, prediction_id: str | None = None) -> PredictionSpec:
        """Read a request; the path gives the prediction's id, the key the owner.

        The inputs are not checked yet, unless the body is large.

        Raises:
            ClientDisconnect: the client has left before the end of the body.
            BodyError: the body cannot be read.
            InvalidRequest: the body names another id, or a webhook that can never be reached, or a
                header is no time.
        """
        body, checked = await self.read_body(request)
        return self.asked(request, body, checked, prediction_id=prediction_id)

    def asked(
        self,
        request: Request,
        body: RequestBody,
        checked: Inputs | Sequence[Problem] | None,
        *,
        prediction_id: str | None = None,
    ) -> PredictionSpec:
        """Return the request of a body that `read_body` has read.

        Raises:
            InvalidRequest: as `read`.
        """
        headers = request.headers
        is_stream, is_async, wait = read_preferences(headers, strict=self._strict)
        asked_id = _choose_id(body.id, prediction_id, self.kind)
        if asked_id is not None and not self._strict:
            check_id(asked_id)
        self._check_fields(body)
        # a client whose connection was cut finds what runs again only by an id of its own
        runs_again = body.retries > 0 and asked_id is not None
        asked = PredictionSpec(
            id=new_id() if asked_id is None else asked_id,
            kind=self._runs,
            input=bytes(body.input) if body.has_input else b"",
            redacted_input=b"",
            context=with_owner(body.context, request),
            webhook=body.webhook,
            events=body.events,
            durable=is_async or wait is not None or body.webhook is not None or runs_again,
            has_client_id=asked_id is not None,
            retries=body.retries,
            timeout=_read_duration(headers.get("cancel-after")),
            headers={name: headers[name] for name in PASSED_ON if name in headers},
            problems=None,
            is_stream=is_stream,
            is_async=is_async,
            wait=wait,
        )
        return asked if checked is None else _with_inputs(asked, checked)

    async def read_body(
        self, request: Request
    ) -> tuple[RequestBody, Inputs | Sequence[Problem] | None]:
        """Read the body; of a large body, also return the checked inputs, or their problems.

        Raises:
            ClientDisconnect: the client has left before the end of the body.
            BodyError: the body cannot be read.
        """
        _read_duration(request.headers.get("cancel-after"))  # refused before the body is read
        content_type = request.headers.get("content-type")
        content = bytearray()
        if content_type is not None or not self._strict:
            async for piece in request.stream():
                content += piece
        if len(content) > LARGE_BYTES:
            job = self._job(content, content_type)
            return await self._large.read(content, job, owner_of(request))
        return read_body(bytes(content), content_type, strict=self._strict), None

    def _check_fields(self, body: RequestBody) -> None:
        if not 0 <= body.retries <= _MOST_RETRIES:
            reason = f"retries is {body.retries}; allowed: 0 to {_MOST_RETRIES}."
            raise ShapeError(reason, ("body", "retries"))
        fault = None if body.webhook is None else self._webhooks.find_fault(body.webhook)
        if fault is not None and not self._strict:  # Cog ignores a wrong webhook
            raise InvalidRequest(f"webhook: {fault}", ("body", "webhook"))

    def check_stream(self, request: PredictionSpec) -> None:
        """Refuse a streaming request if the model does not stream.

        Raises:
            NotStreamable: the model does not stream.
        """
        if not request.is_stream:
            return
        if self.kind == "train":
            raise NotStreamable("Training endpoints do not support streaming responses.")
        operation = self._service.schema().get("paths", {}).get("/predictions", {}).get("post", {})
        if not operation.get("x-cog-streaming"):
            raise NotStreamable(
                "This model does not support streaming responses. "
                "Add @cog.streaming to predict() to enable SSE."
            )

    def checked(self, request: PredictionSpec) -> PredictionSpec:
        """Return the request with the model's inputs, if it can run now.

        Raises:
            NotStreamable: the model does not stream.
            NotReady: the server cannot run it now.
            InvalidInputs: the inputs do not fit.
        """
        self.check_stream(request)
        if not self._service.is_ready or self._service.is_closing:
            raise NotReady(NOT_SET_UP if self._strict else self._service.why_not_ready)
        return self.fitted(request)

    def fitted(self, request: PredictionSpec) -> PredictionSpec:
        """Return the request with the model's inputs.

        Raises:
            InvalidInputs: the inputs do not fit.
        """
        if request.problems is None:
            request = _with_inputs(request, fit_inputs(self._validator(), request.input))
        if request.problems:
            raise InvalidInputs(list(request.problems))
        return request

    def _job(self, content: bytearray, content_type: str | None) -> ReadingJob:
        document, component = self._service.schema(), COMPONENTS[self.kind]
        is_known = component in document.get("components", {}).get("schemas", {})
        return ReadingJob(
            size=len(content),
            content_type=content_type,
            strict=self._strict,
            document=msgspec.json.encode(document) if is_known else b"",
            component=component,
            most_characters=self._service.settings.max_string_length,
        )

    def _validator(self) -> InputValidator:
        try:
            return self._service.validator(self.kind)
        except KeyError as error:
            raise NotReady(
                f"the code for {NOUNS[self.kind]}s does not load; the reason is in setup.logs of "
                "GET /health-check."
            ) from error


def read_preferences(
    headers: Mapping[str, str], *, strict: bool
) -> tuple[bool, bool, float | None]:
    """Read whether a client wants events or an immediate answer, and its longest wait.

    Cog (`strict`) knows only `Prefer: respond-async`.
    """
    if _EVENT_STREAM in headers.get("accept", ""):
        return True, False, None
    prefer = headers.get("prefer", "")
    if strict or prefer in ("", "respond-async"):
        return False, prefer == "respond-async", None
    preferred = [each.strip().lower() for each in prefer.split(",")]
    waits = [match for each in preferred if (match := _WAIT.fullmatch(each))]
    if waits and waits[0][1]:
        return False, False, float(waits[0][1])
    return False, "respond-async" in preferred, None


def _read_duration(text: str | None) -> float | None:
    if text is None:
        return None
    match = _DURATION.fullmatch(text)
    if match is None:
        raise InvalidRequest(
            f"Cancel-After is {text[:20]!r}; allowed: a time such as 30s, 5m or 1h.",
            ("header", "cancel-after"),
        )
    return float(match[1]) * _UNITS[match[2]]


def _choose_id(in_body: str | None, in_path: str | None, kind: Kind) -> str | None:
    if in_path is not None and in_body not in (None, in_path):
        reason = f"{NOUNS[kind]} ID must match the ID supplied in the URL"
        raise InvalidRequest(reason, ("body", "id"))
    return in_body if in_path is None else in_path


def _with_inputs(request: PredictionSpec, checked: Inputs | Sequence[Problem]) -> PredictionSpec:
    if not isinstance(checked, tuple):
        return msgspec.structs.replace(request, problems=checked)
    known, redacted, digest = checked
    return msgspec.structs.replace(
        request,
        input=known,
        redacted_input=known if redacted is None else redacted,
        digest=digest,
        repeatable=redacted is None,
        problems=(),
    )


def with_owner(context: dict[str, str], request: Request) -> dict[str, str]:
    """Put the caller's owner into a context, in place of a value that the caller has sent there."""
    key = key_of(request)
    return owned(context, owner_of(request), is_admin=key is not None and key.opens("admin"))
