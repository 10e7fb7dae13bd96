"""Entries of the JSON log for printed text, and the redaction of log lines.

Needs only msgspec: the worker uses it too, before a user's modules of any name.
"""

import re
from datetime import UTC, datetime

import msgspec

_REDACTED = "[redacted]"
_SECRETS = re.compile(r"(://)[^/@\s\"']+(?=@)|((?:Bearer|Basic) )[^\s\"'\\]+|whsec_[^\s\"'\\]+")

_CONTROLS = re.compile(r"[\x7f-\x9f]")  # every JSON encoder escapes the characters below a space
_NOT_FOR_TERMINALS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def hide_secrets(text: str) -> str:
    """Return a text without the parts that look like secrets."""
    return _SECRETS.sub(rf"\1\2{_REDACTED}", text)


def escape_json(line: str) -> str:
    """Escape the control characters that JSON allows and terminals execute."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", line)


def escape_text(text: str) -> str:
    """Escape the control characters that terminals execute, except tabs and line ends."""
    return _NOT_FOR_TERMINALS.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def to_entry(text: str, **values: str) -> str:
    """Return the line of the JSON log for a printed text, without lone surrogates."""
    time = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    entry = {"event": text, **values, "level": "info", "timestamp": time}
    return hide_secrets(escape_json(msgspec.json.encode(entry).decode()))
