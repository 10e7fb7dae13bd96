"""The body of a request, read from its bytes as Cog's server does.

Strict UTF-8, no lone surrogates, at most 127 levels, no key twice. Whether the inputs fit the
model is the business of `schema/validation.py`.
"""

import re
from typing import Any

import msgspec

from cog_adapt.server.api import strict_json
from cog_adapt.server.errors import InvalidRequest, JsonError, MediaTypeError, ShapeError
from cog_adapt.server.service.prediction import ALL_EVENTS, WebhookEvent

_WRONG_SHAPE = "Failed to deserialize the JSON body into the target type: "
_EMPTY = msgspec.Raw(b"{}")
_JSON_TYPE = re.compile(r"application/(?:[\w.!#$&^-]+\+)?json", re.IGNORECASE)
_SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,127}")


class RequestBody(msgspec.Struct):
    """The body of a request; what it does not name is ignored.

    Attributes:
        id: of the prediction, chosen by the client.
        input: as it came, not yet looked into.
        webhook: where to send events.
        webhook_events_filter: which; all by default, none if empty.
        context: strings that run() can look at.
        retries: how often to run again what a crash of the server or the model cut short.
    """

    id: str | None = None
    input: msgspec.Raw = _EMPTY
    webhook: str | None = None
    webhook_events_filter: list[WebhookEvent] | msgspec.UnsetType = msgspec.UNSET
    context: dict[str, str] = msgspec.field(default_factory=dict)
    retries: int = 0

    @property
    def has_input(self) -> bool:
        """Whether the body names any."""
        return self.input is not _EMPTY

    @property
    def events(self) -> frozenset[str]:
        """The webhook events that were asked for."""
        if isinstance(self.webhook_events_filter, list):
            return frozenset(self.webhook_events_filter)
        return ALL_EVENTS


_decoder = msgspec.json.Decoder(RequestBody)
_any = msgspec.json.Decoder()
_object = msgspec.json.Decoder(dict[str, Any])
_KEYS = tuple(f'"{name}"'.encode() for name in RequestBody.__struct_fields__)


def read_body(content: bytes, content_type: str | None, *, strict: bool) -> RequestBody:
    """Read the body of a request.

    Args:
        content: all of it.
        content_type: the header; None where there is none.
        strict: without the header the body counts as empty, as in Cog.

    Raises:
        MediaTypeError: another type.
        JsonError: no JSON.
        ShapeError: JSON of another shape.
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
        raise ShapeError(f"{_WRONG_SHAPE}{error}", location, "type_error") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _unreadable(error) from error
    duplicate = strict_json.find_duplicate(content, _KEYS, bytes(body.input))
    if duplicate is not None:
        reason = f"{_WRONG_SHAPE}duplicate field `{duplicate}`"
        raise ShapeError(reason, ("body", duplicate))
    return body


def read_input(body: RequestBody) -> Any:  # noqa: ANN401 - any JSON; validation follows
    """Decode the inputs; null counts as none.

    Raises:
        JsonError: they are no JSON.
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


def check_id(prediction_id: str) -> None:
    """Refuse an id that is no plain word.

    Raises:
        InvalidRequest: it is none.
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
    """`… - at `$.webhook`` as ("body", "webhook")."""
    _, _, path = message.partition(" - at `$")
    return ("body", *re.findall(r"\w+", path))
