"""Decides which adapter a reference means, and who may use it: one rule for the whole package.

docs/adapters.md states it, and tests/cog_adapt/test_adapter_rule.py tests it as a table. This
module knows no store, no database and no transport: callers pass candidates, and may leave out
those that cannot match.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol, TypeVar

EVERYBODY = "*"
_VERSIONED = re.compile(r"(.+)@v([1-9][0-9]{0,8})", re.DOTALL)
_SHOWN = 80
_SHOWN_OWNERS = 5


class Candidate(Protocol):
    """The properties of an adapter that the rule needs; `owner` is "" for one without owner."""

    @property
    def id(self) -> str:
        """Its id: equal ids are equal content."""

    @property
    def owner(self) -> str:
        """The owner's name."""

    @property
    def name(self) -> str | None:
        """Its name, given by the owner."""

    @property
    def version(self) -> int | None:
        """The version of that name; None counts as 1."""

    @property
    def shared(self) -> Sequence[str]:
        """The other owners that may use it."""

    @property
    def expires_at(self) -> str | None:
        """The time of its expiry, as ISO 8601; None: never."""


Found = TypeVar("Found", bound=Candidate)


@dataclass(frozen=True)
class Asker:
    """The owner that asks for an adapter.

    Attributes:
        owner: "" if no keys are set.
        sees_all: whether the key has the scope `admin`.
    """

    owner: str = ""
    sees_all: bool = False


# reads the adapter folder itself; no owner has this name
OPERATOR = Asker(EVERYBODY, sees_all=True)


@dataclass(frozen=True)
class Reference:
    """A reference to an adapter: an id, a name for its latest version, or NAME@vN.

    Attributes:
        text: unchanged; an id, if it is one.
        name: the text without its version.
        version: None: the latest.
    """

    text: str
    name: str
    version: int | None = None

    def is_id_of(self, candidate: Candidate) -> bool:
        """Return whether the text is this adapter's id."""
        return candidate.id == self.text

    def names(self, candidate: Candidate) -> bool:
        """Return whether it names this adapter, in the right version if it has one."""
        is_named = candidate.name == self.name
        return is_named and self.version in (None, version_of(candidate))


class SeveralOwners(ValueError):
    """A reference fits adapters of several owners; the message names them, and the remedy."""


def parse_reference(text: str) -> Reference:
    """Parse a reference; any text is one, though no adapter may match."""
    found = _VERSIONED.fullmatch(text)
    return Reference(text, text) if found is None else Reference(text, found[1], int(found[2]))


def version_of(candidate: Candidate) -> int:
    """Return an adapter's version; without one, 1."""
    return candidate.version or 1


def is_expired(candidate: Candidate, now: datetime | None = None) -> bool:
    """Return whether an adapter has expired, by default now; a time without a zone is UTC."""
    if candidate.expires_at is None:
        return False
    end = datetime.fromisoformat(candidate.expires_at)
    return (end if end.tzinfo else end.replace(tzinfo=UTC)) <= (now or datetime.now(UTC))


def may_use(asker: Asker, candidate: Candidate) -> bool:
    """Return whether an asker may use an adapter."""
    return (asker.sees_all or _is_open_to(asker, candidate)) and not is_expired(candidate)


def may_change(asker: Asker, owner: str) -> bool:
    """Return whether an asker may change or remove an owner's adapters, and get their receipts."""
    return asker.sees_all or owner == asker.owner


def choose(
    candidates: Iterable[Found], reference: Reference, asker: Asker, *, to_change: bool = False
) -> Found | None:
    """Choose the adapter that a reference means: an id before a name, own before others'.

    Args:
        candidates: that may match; those that the asker may not use are ignored.
        reference: the reference to resolve.
        asker: the owner that asks.
        to_change: whether the owner matters even if the content is equal.

    Returns:
        The latest version of a name, or None.

    Raises:
        SeveralOwners: several other owners have adapters of that name; to change one, also of that
            id.
    """
    usable = [each for each in candidates if may_use(asker, each)]
    by_id = [each for each in usable if reference.is_id_of(each)]
    found = by_id or [each for each in usable if reference.names(each)]
    latest: dict[str, Found] = {}
    for each in sorted(found, key=version_of):
        latest[each.owner] = each
    if asker.owner in latest:
        return latest[asker.owner]
    if len(latest) > 1 and (to_change or not by_id):
        raise SeveralOwners(_several(reference, latest))
    return latest[min(latest)] if latest else None


def _is_open_to(asker: Asker, candidate: Candidate) -> bool:
    if candidate.owner == asker.owner:
        return True
    return any(reader in (asker.owner, EVERYBODY) for reader in candidate.shared)


def _several(reference: Reference, latest: dict[str, Found]) -> str:
    shown = [f"{owner or '-'} ({latest[owner].id})" for owner in sorted(latest)]
    more = ", …" if len(shown) > _SHOWN_OWNERS else ""
    return (
        f"adapter {reference.text[:_SHOWN]!r} is of several owners: "
        f"{', '.join(shown[:_SHOWN_OWNERS])}{more}. Name one by its id, or say whose you mean: "
        "`owner=` of a URL, `--owner` of a command."
    )
