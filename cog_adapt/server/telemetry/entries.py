"""Entries of the JSON log for what is printed, and what no line of a log may show.

Needs nothing but msgspec: the worker has it too, before a user's modules of any name.
"""

import re
from datetime import UTC, datetime

import msgspec

_REDACTED = "[redacted]"
_SECRETS = re.compile(r"(://)[^/@\s\"']+(?=@)|((?:Bearer|Basic) )[^\s\"'\\]+|whsec_[^\s\"'\\]+")


def hide_secrets(text: str) -> str:
    """Return a text without what looks like a secret."""
    return _SECRETS.sub(rf"\1\2{_REDACTED}", text)


def to_entry(text: str, **values: str) -> str:
    """Return the line of the JSON log for a text that was printed; it holds no lone surrogate."""
    time = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    entry = {"event": text, **values, "level": "info", "timestamp": time}
    return hide_secrets(msgspec.json.encode(entry).decode())
