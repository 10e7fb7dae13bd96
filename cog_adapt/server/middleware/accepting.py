"""The formats that a client accepts, from its headers."""

from collections.abc import Iterable

from starlette.types import Scope

_READ = 1000  # characters that are read; a browser's header has a tenth of that


def weights(header: str) -> dict[str, float]:
    """Return the weight of each name in an `Accept` or `Accept-Encoding` header.

    A weight that is no number counts as 0: not acceptable.
    """
    return dict(map(_read, header.split(",")))


def wants_page(scope: Scope) -> bool:
    """Return whether a request is from a browser that prefers a page to JSON."""
    accepted = weights(header_of(scope["headers"], b"accept"))
    return accepted.get("text/html", 0) > accepted.get("application/json", 0)


def header_of(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str:
    """Return all values of a header, joined by commas; of a long header the beginning."""
    return b",".join(value for each, value in headers if each == name)[:_READ].decode("latin-1")


def _read(part: str) -> tuple[str, float]:
    name, *parameters = (piece.strip().lower() for piece in part.split(";"))
    for parameter in parameters:
        if parameter.startswith("q="):
            return name, _number(parameter.removeprefix("q="))
    return name, 1.0


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
