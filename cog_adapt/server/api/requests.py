"""Turns a request into a prediction request, in the sequence of Cog's checks.

The checks are: JSON, the id in the path, whether it is known, streams, readiness, inputs, room.
"""

from collections.abc import Mapping

import msgspec
from starlette.requests import Request

from cog_adapt.server.api.body import (
    EncodedInputs,
    RequestBody,
    check_id,
    encode_inputs,
    read_body,
)
from cog_adapt.server.api.large_bodies import LARGE_BYTES, Job, LargeBodies, LargeBody
from cog_adapt.server.api.ownership import key_of
from cog_adapt.server.api.preferences import Preferences
from cog_adapt.server.errors import (
    InvalidRequest,
    NotReady,
    NotStreamable,
    ShapeError,
)
from cog_adapt.server.protocol import NOUNS, OWNER_KEY, Kind
from cog_adapt.server.schema.problems import InvalidInputs
from cog_adapt.server.service.prediction import PredictionRequest, new_id
from cog_adapt.server.service.service import COMPONENTS, NOT_SET_UP, PredictionService
from cog_adapt.server.webhooks import Webhooks

_MOST_RETRIES = 10
_PASSED_ON = ("traceparent", "tracestate")


class RequestParser:
    """Reads requests for one kind.

    Args:
        service: where they go.
        webhooks: knows which URLs could never be sent to.
        kind: prediction or training, by the path; it says what inputs must look like.
        runs: what runs; Cog's server in train mode trains, whatever the path.
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
        self._service, self._webhooks, self.kind, self._runs = service, webhooks, kind, runs
        self._strict, self._large = service.settings.strict_cog, large

    async def body(self, request: Request, prediction_id: str | None = None) -> RequestBody:
        """Read the body of a request; the path gives the prediction's id, the key the owner.

        Raises:
            ClientDisconnect: the client has left before the end of the body.
            BodyError: the body cannot be read.
            InvalidRequest: the body names another id, or a webhook that could never be called.
        """
        content_type = request.headers.get("content-type")
        content = bytearray()
        if content_type is not None or not self._strict:
            async for piece in request.stream():
                content += piece
        if len(content) > LARGE_BYTES:
            body: RequestBody = await self._large.read(content, self._job(content, content_type))
        else:
            body = read_body(bytes(content), content_type, strict=self._strict)
        _name_owner(body.context, request)
        if prediction_id is not None:
            if body.id not in (None, prediction_id):
                reason = f"{NOUNS[self.kind]} ID must match the ID supplied in the URL"
                raise InvalidRequest(reason, ("body", "id"))
            body.id = prediction_id
        if body.id is not None and not self._strict:
            check_id(body.id)
        if not 0 <= body.retries <= _MOST_RETRIES:
            reason = f"retries is {body.retries}; allowed: 0 to {_MOST_RETRIES}."
            raise ShapeError(reason, ("body", "retries"))
        self._check_webhook(body.webhook)
        return body

    def check_stream(self, preferences: Preferences) -> None:
        """Refuse a streaming request if the model does not stream.

        Raises:
            NotStreamable: the model does not stream.
        """
        if not preferences.is_stream:
            return
        if self.kind == "train":
            raise NotStreamable("Training endpoints do not support streaming responses.")
        operation = self._service.schema().get("paths", {}).get("/predictions", {}).get("post", {})
        if not operation.get("x-cog-streaming"):
            raise NotStreamable(
                "This model does not support streaming responses. "
                "Add @cog.streaming to predict() to enable SSE."
            )

    def prediction_request(
        self, body: RequestBody, headers: Mapping[str, str], preferences: Preferences
    ) -> PredictionRequest:
        """Return the prediction request.

        Raises:
            NotReady: nothing can be run now.
            InvalidInputs: the inputs do not fit.
        """
        if not self._service.is_ready or self._service.is_closing:
            raise NotReady(NOT_SET_UP if self._strict else self._service.why_not_ready)
        inputs = self._read_inputs(body)
        nobody_waits = preferences.is_async or preferences.wait is not None
        return PredictionRequest(
            id=new_id() if body.id is None else body.id,
            kind=self._runs,
            input=inputs.known,
            redacted_input=inputs.known if inputs.redacted is None else inputs.redacted,
            input_digest=inputs.digest,
            context=body.context,
            webhook=body.webhook,
            events=body.events,
            durable=nobody_waits or body.webhook is not None,
            has_client_id=body.id is not None,
            repeatable=inputs.redacted is None,
            retries=body.retries,
            timeout=preferences.cancel_after,
            headers={name: headers[name] for name in _PASSED_ON if name in headers},
        )

    def digest(self, body: RequestBody) -> str:
        """Return the digest of a body's inputs, as in its prediction request.

        Raises:
            InvalidInputs: the inputs do not fit.
        """
        return self._read_inputs(body).digest

    def _check_webhook(self, url: str | None) -> None:
        """Refuse a malformed URL; in strict mode ignore the URL, as Cog does."""
        fault = None if url is None else self._webhooks.find_fault(url)
        if fault is not None and not self._strict:
            raise InvalidRequest(f"webhook: {fault}", ("body", "webhook"))

    def _job(self, content: bytearray, content_type: str | None) -> Job:
        document, component = self._service.schema(), COMPONENTS[self.kind]
        is_known = component in document.get("components", {}).get("schemas", {})
        return Job(
            size=len(content),
            content_type=content_type,
            strict=self._strict,
            document=msgspec.json.encode(document) if is_known else b"",
            component=component,
            most_characters=self._service.settings.max_string_length,
        )

    def _read_inputs(self, body: RequestBody) -> EncodedInputs:
        checked = body.checked if isinstance(body, LargeBody) else None
        if isinstance(checked, EncodedInputs):
            return checked
        if checked is not None:
            raise InvalidInputs(checked)
        try:
            validator = self._service.validator(self.kind)
        except KeyError as error:
            raise NotReady(
                f"the code for {NOUNS[self.kind]}s does not load; why is in setup.logs of "
                "GET /health-check."
            ) from error
        return encode_inputs(validator, body)


def _name_owner(context: dict[str, str], request: Request) -> None:
    """Put the owner into a context, replacing whatever the caller wrote there."""
    context.pop(OWNER_KEY, None)
    key = key_of(request)
    if key is not None:
        context[OWNER_KEY] = key.owner
