"""The changes that an owner may make to an adapter's metadata, and the check of each value."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from cog_adapt.adapter_metadata import AdapterMetadata
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.storage.names import check_name
from cog_adapt.runner.storage.versions import NextVersion

_MOST_NOTES = 10_000
_MOST_OWNERS = 1_000
_MOST_OWNER = 256
_SHOWN = 80


def checked_changes(changes: Mapping[str, object]) -> dict[str, Any]:
    """Check changes by name; return the values in the types of `AdapterMetadata`.

    Raises:
        InputError: a name is unknown, or a value is not allowed.
    """
    unknown = sorted(str(name) for name in changes if name not in _CHECKS)
    if unknown:
        raise InputError(
            f"{', '.join(unknown)[:_SHOWN]} cannot be changed; {', '.join(_CHECKS)} can. Leave the "
            "rest out."
        )
    return {name: _CHECKS[name](value) for name, value in changes.items()}


def apply_changes(
    known: AdapterMetadata, changes: Mapping[str, Any], next_version: NextVersion
) -> AdapterMetadata:
    """Return the metadata after checked changes; a new name gets the name's next version."""
    changed = replace(known, **changes)
    if changed.name == known.name:
        return changed
    version = None if changed.name is None else next_version(changed.name)
    return replace(changed, version=version)


def _name(value: object) -> str | None:
    return None if value is None else check_name(value)


def _notes(value: object) -> str:
    if not isinstance(value, str) or len(value) > _MOST_NOTES:
        raise InputError(f"notes is no text of at most {_MOST_NOTES:,} characters. Send one.")
    return _encodable("notes", value)


def _expires_at(value: object) -> str | None:
    if value is None:
        return None
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise InputError(
            f"expires_at is {repr(value)[:_SHOWN]}; it is a time such as "
            "'2027-01-31T12:00:00+00:00', or null for never. Send one, with its time zone."
        )
    try:
        return time.astimezone(UTC).isoformat(timespec="microseconds")
    except OverflowError as error:
        raise InputError(f"expires_at is {value!r}, which is no time in UTC. Send one.") from error


def _pinned(value: object) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"pinned is {repr(value)[:_SHOWN]}; it is true or false. Send one.")
    return value


def _shared(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > _MOST_OWNERS:
        raise InputError(
            f"shared is no list of at most {_MOST_OWNERS:,} owners. Send one; ['*'] shares with "
            "everybody, and [] with nobody."
        )
    for owner in value:
        if not isinstance(owner, str) or not 0 < len(owner) <= _MOST_OWNER:
            raise InputError(
                f"shared has {repr(owner)[:_SHOWN]}; an owner is a text of 1 to {_MOST_OWNER} "
                "characters. Send owners' names."
            )
    return tuple(dict.fromkeys(_encodable("shared", owner) for owner in value))


def _encodable(name: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{name} has half a surrogate pair: {error}. Remove it.") from error
    return text


_CHECKS: Mapping[str, Callable[[object], Any]] = {
    "name": _name,
    "notes": _notes,
    "expires_at": _expires_at,
    "pinned": _pinned,
    "shared": _shared,
}
