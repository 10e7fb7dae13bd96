"""From the bytes of a request to what it asks, or to the reason why it asks nothing.

Reads JSON as Cog's server does: strict UTF-8, no lone surrogates, at most 127 levels, no key twice
in the envelope. Whether the inputs fit the model is the business of `validation`.
"""

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

Event = Literal["start", "output", "logs", "completed"]
ALL_EVENTS: frozenset[str] = frozenset(("start", "output", "logs", "completed"))
MOST_LEVELS = 127
_WRONG_SHAPE = "Failed to deserialize the JSON body into the target type: "
_EMPTY = msgspec.Raw(b"{}")
_JSON_TYPE = re.compile(r"application/(?:[\w.!#$&^-]+\+)?json", re.IGNORECASE)
_SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,127}")
# Possessive, and content with a string that never ends: linear in time, constant in memory.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_TOKENS = re.compile(_STRING.pattern + rb"|[\[{\]}:]", re.DOTALL)
_ALL_SQUARE = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


class Refused(Exception):
    """A request that is answered at once.

    Attributes:
        status: the HTTP status.
        reason: what is wrong, and the remedy.
        location: of the value at fault, for a 422; () elsewhere.
        kind: pydantic's word for the mistake.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        location: tuple[str, ...] = (),
        kind: str = "value_error",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(reason)
        self.status, self.reason, self.location, self.kind = status, reason, location, kind
        self.headers = dict(headers or {})


class BodyError(Refused):
    """A body that cannot be read at all, or is JSON of another shape."""


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
    webhook_events_filter: list[Event] | msgspec.UnsetType = msgspec.UNSET
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
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_KEYS = tuple(f'"{name}"'.encode() for name in RequestBody.__struct_fields__)


def read_body(body: bytes, content_type: str | None, *, strict: bool) -> RequestBody:
    """The envelope of a request.

    Args:
        body: all of it.
        content_type: the header; None where there is none.
        strict: without the header the body counts as empty, as in Cog.

    Raises:
        NotAnEnvelope: 415 another type, 400 no JSON, 422 JSON of another shape.
    """
    if content_type is None and (strict or not body):
        return RequestBody()
    if content_type is not None and not _is_json_type(content_type):
        raise BodyError(415, "Expected request with `Content-Type: application/json`")
    if _levels(body) > MOST_LEVELS:
        raise _unreadable(f"recursion limit exceeded: {MOST_LEVELS} levels")
    try:
        request_body = _decoder.decode(body)
    except msgspec.ValidationError as error:
        location = _location(str(error))
        raise BodyError(422, f"{_WRONG_SHAPE}{error}", location, "type_error") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _unreadable(error) from error
    _refuse_doubles(body, request_body)
    return request_body


def read_input(request_body: RequestBody) -> Any:  # noqa: ANN401 - any JSON; validation follows
    """The inputs as Python values; null counts as none.

    Raises:
        NotAnEnvelope: 400, they are no JSON.
    """
    try:
        value = _any.decode(request_body.input)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _unreadable(error) from error
    return {} if value is None else value


def _is_json_type(content_type: str) -> bool:
    return bool(_JSON_TYPE.fullmatch(content_type.partition(";")[0].strip()))


def _unreadable(why: object) -> BodyError:
    return BodyError(400, f"Failed to parse the request body as JSON: {why}")


def check_id(name: str) -> None:
    """Refuse an id that is no plain word.

    Raises:
        Refused: 422.
    """
    if not _SAFE_ID.fullmatch(name):
        raise Refused(
            422,
            f"id is {name[:80]!r}; allowed: 1 to 128 letters, digits and . _ ~ -, "
            "beginning with a letter or digit.",
            ("body", "id"),
        )


def _levels(body: bytes) -> int:
    """How deep brackets nest outside strings; counted only where there are many."""
    if body.count(b"{") + body.count(b"[") <= MOST_LEVELS:
        return 0
    brackets = _STRING.sub(b"", body).translate(_ALL_SQUARE, _NO_BRACKETS)
    levels = 0
    while levels <= MOST_LEVELS and b"[]" in brackets:
        brackets = brackets.replace(b"[]", b"")  # the innermost of every nest: one level
        levels += 1
    return levels + brackets.count(b"[")  # those that are never closed


def _refuse_doubles(body: bytes, request_body: RequestBody) -> None:
    """A key of the envelope that comes twice leaves open which one counts."""
    around = b"".join(
        body.partition(bytes(request_body.input))[::2]
    )  # what is large is in the input
    if all(around.count(key) < 2 for key in _KEYS) or not _loses_a_member(body):
        return
    tokens = [match.group() for match in _TOKENS.finditer(body)]
    depth, seen = 0, set[bytes]()
    for token, following in zip(tokens, [*tokens[1:], b""], strict=True):
        depth += (token in b"[{") - (token in b"]}")
        if depth == 1 and following == b":" and token in _KEYS:
            if token in seen:
                name = token.decode().strip('"')
                reason = f"{_WRONG_SHAPE}duplicate field `{name}`"
                raise BodyError(422, reason, ("body", name))
            seen.add(token)


def _loses_a_member(body: bytes) -> bool:
    """Whether a key of the envelope stands where no member is, of which the last counts."""
    members = _members.decode(body)
    return any(
        body.count(key) > (key[1:-1].decode() in members) + _count_in(members, key) for key in _KEYS
    )


def _count_in(members: Mapping[str, msgspec.Raw], key: bytes) -> int:
    return sum(bytes(value).count(key) for value in members.values())


def _location(message: str) -> tuple[str, ...]:
    """`… - at `$.webhook`` as ("body", "webhook")."""
    _, _, path = message.partition(" - at `$")
    return ("body", *re.findall(r"\w+", path))
