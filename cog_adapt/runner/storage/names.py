"""The ids and names that adapters may have, and the refusal of an unknown adapter.

This module knows no store.
"""

import re

from cog_adapt.runner.errors import AdapterNotFound, InputError

_ID = re.compile(r"[0-9a-f]{16}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SHOWN = 80


def is_id(text: str) -> bool:
    """Return whether a text is an adapter's id."""
    return _ID.fullmatch(text) is not None


def check_name(name: object) -> str:
    """Return a name that an adapter may have.

    Raises:
        InputError: the name is not allowed.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name) or is_id(name):
        raise InputError(
            f"name is {repr(name)[:_SHOWN]}; a name has 1 to 64 letters, digits, '.', '_' or '-', "
            "begins with a letter or digit, and is no id of 16 hex digits. Choose such a name."
        )
    return name


def not_found(reference: str) -> AdapterNotFound:
    """Return the refusal of an unknown adapter; another owner's adapter gets the same refusal."""
    return AdapterNotFound(
        f"adapter {reference[:_SHOWN]!r} is not known here; an id has 16 hex digits and comes from "
        "an earlier answer of this server, and a name is `name` or `name@v2`. Send its examples "
        "again, or its file as `weights`."
    )
