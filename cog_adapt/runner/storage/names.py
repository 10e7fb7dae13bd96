"""How a request names an adapter: by id, by name, by name and version.

This module knows no store.
"""

import re
from dataclasses import dataclass

from cog_adapt.runner.errors import AdapterNotFound, InputError

_ID = re.compile(r"[0-9a-f]{16}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_REFERENCE = re.compile(rf"({_NAME.pattern})(?:@v([1-9][0-9]{{0,8}}))?")
_SHOWN = 80


@dataclass(frozen=True)
class Reference:
    """What a request says: either an id, or a name with perhaps a version.

    Attributes:
        version: None: the latest.
    """

    id: str | None = None
    name: str | None = None
    version: int | None = None


def is_id(text: str) -> bool:
    """Return whether a text is an adapter's id."""
    return _ID.fullmatch(text) is not None


def parse_reference(text: str) -> Reference:
    """Read the `adapter` of a request.

    Raises:
        AdapterNotFound: no adapter can be called so.
    """
    if is_id(text):
        return Reference(id=text)
    found = _REFERENCE.fullmatch(text)
    if found is None:
        raise not_found(text)
    return Reference(name=found[1], version=int(found[2]) if found[2] else None)


def check_name(name: object) -> str:
    """Return a name that an adapter may have.

    Raises:
        InputError: it may not.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name) or is_id(name):
        raise InputError(
            f"name is {repr(name)[:_SHOWN]}; a name has 1 to 64 letters, digits, '.', '_' or '-', "
            "begins with a letter or digit, and is no id of 16 hex digits. Choose such a one."
        )
    return name


def not_found(reference: str) -> AdapterNotFound:
    """Make the refusal of what is unknown: of another owner's adapter it says the same."""
    return AdapterNotFound(
        f"adapter {reference[:_SHOWN]!r} is not known here; an id has 16 hex digits and comes from "
        "an earlier answer of this server, and a name is `name` or `name@v2`. Send its examples "
        "again, or its file as `weights`."
    )
