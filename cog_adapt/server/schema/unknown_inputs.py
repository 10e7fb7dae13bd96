"""Messages about inputs that the model does not have: most are misspelt."""

import difflib
from collections.abc import Iterable, Sequence
from itertools import islice

_MOST = 20  # unknown names in one answer
_LONGEST = 128  # characters of a name that is compared with others, and shown


def find_unknown(names: Iterable[str], known: Sequence[str]) -> list[tuple[str, str]]:
    """Return the first unknown names, cut, each with its problem."""
    unknown = (name for name in names if name not in known)
    return [(_cut(name), describe_unknown(name, known)) for name in islice(unknown, _MOST)]


def describe_unknown(name: str, known: Sequence[str]) -> str:
    """Return the problem of one name: the allowed names, and the nearest of them."""
    near = difflib.get_close_matches(name, known, n=1) if len(name) <= _LONGEST else []
    meant = f" Did you mean {near[0]}?" if near else ""
    return f"{_cut(name)} is no input; allowed: {', '.join(known) or 'none'}.{meant}"


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…"
