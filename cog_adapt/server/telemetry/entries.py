"""Entries of the JSON log for what is printed, and what no line of a log may show.

Needs nothing but msgspec: the worker has it too, before a user's modules of any name.
"""

import re
from datetime import UTC, datetime

import msgspec

_REDACTED = "[redacted]"
_SECRETS = re.compile(r"(://)[^/@\s\"']+(?=@)|((?:Bearer|Basic) )[^\s\"'\\]+|whsec_[^\s\"'\\]+")

_CONTROLS = re.compile(r"[\x7f-\x9f]")  # those below a space are escaped by every JSON encoder
_NOT_FOR_TERMINALS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def hide_secrets(text: str) -> str:
    """Return a text without what looks like a secret."""
    return _SECRETS.sub(rf"\1\2{_REDACTED}", text)


def escape_json(line: str) -> str:
    """Escape the control characters that JSON lets through, and terminals obey."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", line)


def escape_text(text: str) -> str:
    """Escape what a terminal obeys, but for tabs and the ends of lines."""
    return _NOT_FOR_TERMINALS.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def to_entry(text: str, **values: str) -> str:
    """Return the line of the JSON log for a text that was printed; it holds no lone surrogate."""
    time = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    entry = {"event": text, **values, "level": "info", "timestamp": time}
    return hide_secrets(escape_json(msgspec.json.encode(entry).decode()))
