"""The body of a request, read from its bytes as Cog's server does.

The bytes must be strict UTF-8 without lone surrogates, with at most 127 levels, and with each key
of an object once, because the meaning of a repeated key is unclear. `schema/validation.py` checks
whether the inputs fit the model; `large_bodies` reads and checks a body in another process.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

import msgspec

from cog_adapt.server.errors import InvalidRequest, JsonError, MediaTypeError, ShapeError
from cog_adapt.server.schema.problems import shorten
from cog_adapt.server.schema.validation import InputValidator
from cog_adapt.server.service.prediction import ALL_EVENTS, WebhookEvent, digest_of, encode

_WRONG_SHAPE = "Failed to deserialize the JSON body into the target type: "
_EMPTY = msgspec.Raw(b"{}")
_NULL = msgspec.Raw(b"null")
_IGNORED = ("version", "destination")
_JSON_TYPE = re.compile(r"application/(?:[\w.!#$&^-]+\+)?json", re.IGNORECASE)
_SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,127}")
MOST_LEVELS = 127
_FEW, _BEGIN = 1_000, 256
_SHORT = 4_096  # bytes whose marks are counted in a microsecond
# Possessive, and a string without an end counts too: linear in time, constant in memory.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_TOKENS = re.compile(_STRING.pattern + rb"|[\[{\]}:]", re.DOTALL)
_ALL_SQUARE = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
Inputs = tuple[bytes, bytes | None, str]
"""The model's inputs; the same with secrets redacted, if there are any; their digest."""


class RequestBody(msgspec.Struct):
    """The body of a request; keys not named here are ignored.

    Attributes:
        id: of the prediction, chosen by the client.
        input: the raw JSON, not yet checked.
        webhook: where to send events.
        webhook_events_filter: the events to send; all by default, none if empty.
        context: strings that run() can read.
        retries: how often to run again after a crash of the server or the model.
        version: for Replicate's routes, which read it; elsewhere it is ignored, whatever it is.
        destination: the same.
    """

    id: str | None = None
    input: msgspec.Raw = _EMPTY
    webhook: str | None = None
    webhook_events_filter: list[WebhookEvent] | msgspec.UnsetType = msgspec.UNSET
    context: dict[str, str] = msgspec.field(default_factory=dict)
    retries: int = 0
    version: msgspec.Raw = _NULL
    destination: msgspec.Raw = _NULL

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


_decoder = msgspec.json.Decoder(RequestBody)
_any = msgspec.json.Decoder()
_object = msgspec.json.Decoder(dict[str, Any])
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_KEYS = tuple(
    f'"{name}"'.encode() for name in RequestBody.__struct_fields__ if name not in _IGNORED
)


_REMEDIES = {
    "out of range": ". A whole number has at most 4,300 digits, another one at most 308 before its "
    "point. Write it shorter, or as a text in quotes.",
    "surrogate": ". A text holds half of a surrogate pair (\\ud800 to \\udfff). Leave it out.",
    "was truncated": ". The JSON, or a surrogate pair (\\ud800 to \\udfff) in a text, is cut off. "
    "Send it whole.",
}
"""What to do, by a part of msgspec's own message."""


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
    _check_json(content, content_type)
    try:
        body = _decoder.decode(content)
    except msgspec.ValidationError as error:
        location = _location(str(error))
        reason = shorten(f"{_WRONG_SHAPE}{error}")
        raise ShapeError(reason, location, "type_error") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _unreadable(error) from error
    duplicate = find_duplicate(content, _KEYS, bytes(body.input))
    if duplicate is not None:
        reason = f"{_WRONG_SHAPE}duplicate field `{duplicate}`"
        raise ShapeError(reason, ("body", duplicate))
    return body


def read_object(content: bytes, content_type: str | None) -> dict[str, Any]:
    """Read a body that is any JSON object.

    Raises:
        MediaTypeError: another type.
        JsonError: no JSON.
        ShapeError: no object.
    """
    _check_json(content, content_type)
    try:
        return _object.decode(content)
    except msgspec.ValidationError as error:
        raise ShapeError(f"{_WRONG_SHAPE}{error}", ("body",), "type_error") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _unreadable(error) from error


def fit_inputs(validator: InputValidator, content: bytes) -> Inputs:
    """Check the inputs of a body, and encode them; null counts as no inputs.

    Args:
        validator: of the model's inputs.
        content: their JSON; empty if the body has none.

    Raises:
        JsonError: they are no JSON.
        InvalidInputs: they do not fit.
    """
    try:
        value = _any.decode(content) if content else None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _unreadable(error) from error
    inputs = validator.check({} if value is None else value, len(content))
    known, redacted = encode(inputs), validator.redacted(inputs)
    return known, None if redacted is None else encode(redacted), digest_of(known)


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


def _check_json(content: bytes, content_type: str | None) -> None:
    if content_type is not None and not _is_json_type(content_type):
        raise MediaTypeError("Expected request with `Content-Type: application/json`")
    if levels(content) > MOST_LEVELS:
        raise _unreadable(f"recursion limit exceeded: {MOST_LEVELS} levels")


def _is_json_type(content_type: str) -> bool:
    return bool(_JSON_TYPE.fullmatch(content_type.partition(";")[0].strip()))


def _unreadable(why: object) -> JsonError:
    message = f"Failed to parse the request body as JSON: {why}"
    for mark, remedy in _REMEDIES.items():
        if mark in message:
            message += remedy
    return JsonError(message)


def _location(message: str) -> tuple[str, ...]:
    """Return `… - at `$.webhook`` as ("body", "webhook")."""
    _, _, path = message.partition(" - at `$")
    return ("body", *re.findall(r"\w+", path))


def levels(body: bytes) -> int:
    """Return how deep brackets nest outside strings; counted only if there are many."""
    if count_of(body, b"{") + count_of(body, b"[") <= MOST_LEVELS:
        return 0
    brackets = _STRING.sub(b"", body).translate(_ALL_SQUARE, _NO_BRACKETS)
    depth = 0
    while depth <= MOST_LEVELS and b"[]" in brackets:
        # removes the innermost brackets, which is one level
        brackets = brackets.replace(b"[]", b"")
        depth += 1
    return depth + brackets.count(b"[")  # brackets that are never closed


def count_of(content: bytes, mark: bytes) -> int:
    """Return what `bytes.count` does, in a tenth of its time if a long content has few marks."""
    if len(content) < _SHORT:
        return content.count(mark)
    place = content.find(mark)
    for number in range(_FEW):
        if place < 0:
            return number
        place = content.find(mark, place + 1)
    return content.count(mark)


def find_duplicate(body: bytes, keys: Sequence[bytes], largest: bytes) -> str | None:
    """Return the first key that an object has twice.

    Args:
        body: a JSON object.
        keys: the keys to look for, with their quotes.
        largest: the value of a member; keys inside this value do not count.
    """
    around = _around(body, largest)
    if all(around.count(key) < 2 for key in keys) or not _loses_a_member(body, keys):
        return None
    tokens = (match.group() for match in _TOKENS.finditer(body))
    depth, seen = 0, set[bytes]()
    for token, following in pairwise(chain(tokens, (b"",))):
        depth += (token in b"[{") - (token in b"]}")
        is_key = depth == 1 and following == b":" and token in keys
        if is_key and token in seen:
            return token.decode().strip('"')
        if is_key:
            seen.add(token)
    return None


def _around(body: bytes, part: bytes) -> bytes:
    """Return a body without a part; to search for 22 MB takes 30 ms, for their begin none."""
    start = body.find(part[:_BEGIN])
    if body.startswith(part, start):
        return body[:start] + body[start + len(part) :]
    return b"".join(body.partition(part)[::2])


def _loses_a_member(body: bytes, keys: Sequence[bytes]) -> bool:
    """Return whether a repeated key would lose a member."""
    members = _members.decode(body)
    return any(
        body.count(key) > (key[1:-1].decode() in members) + _count_in(members, key) for key in keys
    )


def _count_in(members: Mapping[str, msgspec.Raw], key: bytes) -> int:
    return sum(bytes(value).count(key) for value in members.values())
