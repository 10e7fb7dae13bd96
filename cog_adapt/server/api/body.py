"""The body of a request, read from its bytes as Cog's server does.

Strict UTF-8, no lone surrogates, at most 127 levels, no key twice. Whether the inputs fit the
model is the business of `schema/validation.py`; `large_bodies` does the same in another process.
"""

import re
from typing import Any

import msgspec

from cog_adapt.server.api import strict_json
from cog_adapt.server.errors import InvalidRequest, JsonError, MediaTypeError, ShapeError
from cog_adapt.server.schema.problems import shorten
from cog_adapt.server.schema.validation import InputValidator
from cog_adapt.server.service.prediction import ALL_EVENTS, WebhookEvent, digest_of, encode

_WRONG_SHAPE = "Failed to deserialize the JSON body into the target type: "
_EMPTY = msgspec.Raw(b"{}")
_JSON_TYPE = re.compile(r"application/(?:[\w.!#$&^-]+\+)?json", re.IGNORECASE)
_SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,127}")


class RequestBody(msgspec.Struct):
    """The body of a request; keys not named here are ignored.

    Attributes:
        id: of the prediction, chosen by the client.
        input: the raw JSON, not yet checked.
        webhook: where to send events.
        webhook_events_filter: the events to send; all by default, none if empty.
        context: strings that run() can read.
        retries: how often to run again after a crash of the server or the model.
    """

    id: str | None = None
    input: msgspec.Raw = _EMPTY
    webhook: str | None = None
    webhook_events_filter: list[WebhookEvent] | msgspec.UnsetType = msgspec.UNSET
    context: dict[str, str] = msgspec.field(default_factory=dict)
    retries: int = 0

    @property
    def has_input(self) -> bool:
        """Whether the body has inputs."""
        return self.input is not _EMPTY

    @property
    def events(self) -> frozenset[str]:
        """The webhook events that the client wants."""
        if isinstance(self.webhook_events_filter, list):
            return frozenset(self.webhook_events_filter)
        return ALL_EVENTS


class EncodedInputs(msgspec.Struct, frozen=True):
    """Inputs that fit the model, as JSON.

    Attributes:
        known: what the model gets.
        redacted: the same with secrets starred out; None where there is no secret.
        digest: tells whether another request asks the same.
    """

    known: bytes
    redacted: bytes | None
    digest: str


_decoder = msgspec.json.Decoder(RequestBody)
_any = msgspec.json.Decoder()
_object = msgspec.json.Decoder(dict[str, Any])
_KEYS = tuple(f'"{name}"'.encode() for name in RequestBody.__struct_fields__)


def read_body(content: bytes, content_type: str | None, *, strict: bool) -> RequestBody:
    """Read the body of a request.

    Args:
        content: the whole body.
        content_type: the header; None if it is missing.
        strict: treat a body without the header as empty, as Cog does.

    Raises:
        MediaTypeError: the content type is not JSON.
        JsonError: the body is not JSON.
        ShapeError: the JSON has another shape.
    """
    if content_type is None and (strict or not content):
        return RequestBody()
    if content_type is not None and not _is_json_type(content_type):
        raise MediaTypeError("Expected request with `Content-Type: application/json`")
    if strict_json.levels(content) > strict_json.MOST_LEVELS:
        raise _unreadable(f"recursion limit exceeded: {strict_json.MOST_LEVELS} levels")
    try:
        body = _decoder.decode(content)
    except msgspec.ValidationError as error:
        location = _location(str(error))
        reason = shorten(f"{_WRONG_SHAPE}{error}")
        raise ShapeError(reason, location, "type_error") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _unreadable(error) from error
    duplicate = strict_json.find_duplicate(content, _KEYS, bytes(body.input))
    if duplicate is not None:
        reason = f"{_WRONG_SHAPE}duplicate field `{duplicate}`"
        raise ShapeError(reason, ("body", duplicate))
    return body


def read_input(body: RequestBody) -> Any:  # noqa: ANN401 - any JSON; validation follows
    """Decode the inputs; null counts as no inputs.

    Raises:
        JsonError: the inputs are not JSON.
    """
    try:
        value = _any.decode(body.input)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _unreadable(error) from error
    return {} if value is None else value


def read_object(content: bytes, content_type: str | None) -> dict[str, Any]:
    """Read a body that is any JSON object.

    Raises:
        MediaTypeError: another type.
        JsonError: no JSON.
        ShapeError: no object.
    """
    if content_type is not None and not _is_json_type(content_type):
        raise MediaTypeError("Expected request with `Content-Type: application/json`")
    if strict_json.levels(content) > strict_json.MOST_LEVELS:
        raise _unreadable(f"recursion limit exceeded: {strict_json.MOST_LEVELS} levels")
    try:
        return _object.decode(content)
    except msgspec.ValidationError as error:
        raise ShapeError(f"{_WRONG_SHAPE}{error}", ("body",), "type_error") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _unreadable(error) from error


def encode_inputs(validator: InputValidator, body: RequestBody) -> EncodedInputs:
    """Check the inputs of a body, and encode them.

    Raises:
        JsonError: they are no JSON.
        InvalidInputs: they do not fit.
    """
    checked = validator.check(read_input(body), len(body.input))
    known = encode(checked.known)
    redacted = None if checked.redacted is None else encode(checked.redacted)
    return EncodedInputs(known, redacted, digest_of(known))


def check_id(prediction_id: str) -> None:
    """Refuse an id that is not a plain word.

    Raises:
        InvalidRequest: the id is not a plain word.
    """
    if not _SAFE_ID.fullmatch(prediction_id):
        raise InvalidRequest(
            f"id is {prediction_id[:80]!r}; allowed: 1 to 128 letters, digits and . _ ~ -, "
            "beginning with a letter or digit.",
            ("body", "id"),
        )


def _is_json_type(content_type: str) -> bool:
    return bool(_JSON_TYPE.fullmatch(content_type.partition(";")[0].strip()))


def _unreadable(why: object) -> JsonError:
    return JsonError(f"Failed to parse the request body as JSON: {why}")


def _location(message: str) -> tuple[str, ...]:
    """Return `… - at `$.webhook`` as ("body", "webhook")."""
    _, _, path = message.partition(" - at `$")
    return ("body", *re.findall(r"\w+", path))
