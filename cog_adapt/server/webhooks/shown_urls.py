"""A webhook's URL without possible secrets, for callers that may look but not send."""

import re
from urllib.parse import SplitResult, urlsplit

_URL = re.compile(r"https?://[^\s'\"]+", re.IGNORECASE)
_HIDDEN = "***"


def shown_url(url: str) -> str:
    """Return a URL without its user, password, fragment and the values of its query."""
    try:
        parts = urlsplit(url)
    except ValueError:  # brackets without an address: nothing is ever sent to such a URL
        return _HIDDEN
    host = parts.netloc.rpartition("@")[2]
    return SplitResult(
        scheme=parts.scheme,
        netloc=host,
        path=parts.path,
        query=_without_values(parts.query),
        fragment="",
    ).geturl()


def shown_error(text: str, url: str) -> str:
    """Return the text of an error, with URLs and their parts redacted."""
    for written in (url, repr(url)[1:-1]):
        text = text.replace(written, shown_url(url))
    return _URL.sub(lambda match: shown_url(match[0]), text)


def _without_values(query: str) -> str:
    names = [pair.partition("=") for pair in query.split("&") if pair]
    return "&".join(f"{name}={_HIDDEN}" if equals else _HIDDEN for name, equals, _ in names)
