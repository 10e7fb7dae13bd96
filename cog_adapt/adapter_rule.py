"""Which adapter a reference means, and who may use it: one rule for runner, server and commands.

docs/adapters.md tells it, and tests/cog_adapt/test_adapter_rule.py holds it as a table. This module
knows no store, no database and no transport: callers hand over candidates, and may leave out those
that cannot be meant.
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
    """What the rule has to know of an adapter; `owner` is "" for one that nobody owns."""

    @property
    def id(self) -> str:
        """Its id: equal ids are equal content."""

    @property
    def owner(self) -> str:
        """Whose it is."""

    @property
    def name(self) -> str | None:
        """What its owner calls it."""

    @property
    def version(self) -> int | None:
        """Which of that name it is; None counts as 1."""

    @property
    def shared(self) -> Sequence[str]:
        """The owners that may use it too."""

    @property
    def expires_at(self) -> str | None:
        """When its time is over, as ISO 8601; None: never."""


Found = TypeVar("Found", bound=Candidate)


@dataclass(frozen=True)
class Asker:
    """Who asks for an adapter.

    Attributes:
        owner: "" where no keys are set.
        sees_all: whether the key has the scope `admin`.
    """

    owner: str = ""
    sees_all: bool = False


OPERATOR = Asker(EVERYBODY, sees_all=True)  # at the folder; no owner is called so


@dataclass(frozen=True)
class Reference:
    """What is asked for: an id, a name for its latest version, or NAME@vN.

    Attributes:
        text: as it came; an id, if it is one.
        name: the text without its version.
        version: None: the latest.
    """

    text: str
    name: str
    version: int | None = None

    def is_id_of(self, candidate: Candidate) -> bool:
        """Return whether it is this one's id."""
        return candidate.id == self.text

    def names(self, candidate: Candidate) -> bool:
        """Return whether it is this one's name, in this version if it says one."""
        is_named = candidate.name == self.name
        return is_named and self.version in (None, version_of(candidate))


class SeveralOwners(ValueError):
    """A reference means adapters of several owners; the message names them, and what to do."""


def parse_reference(text: str) -> Reference:
    """Read a reference; any text is one, though it may mean nothing."""
    found = _VERSIONED.fullmatch(text)
    return Reference(text, text) if found is None else Reference(text, found[1], int(found[2]))


def version_of(candidate: Candidate) -> int:
    """Return an adapter's version; one that was never given any is the first."""
    return candidate.version or 1


def is_expired(candidate: Candidate, now: datetime | None = None) -> bool:
    """Return whether an adapter's time is over, by default now; a time without a zone is UTC."""
    if candidate.expires_at is None:
        return False
    end = datetime.fromisoformat(candidate.expires_at)
    return (end if end.tzinfo else end.replace(tzinfo=UTC)) <= (now or datetime.now(UTC))


def may_use(asker: Asker, candidate: Candidate) -> bool:
    """Return whether an adapter is there for this asker."""
    return (asker.sees_all or _is_open_to(asker, candidate)) and not is_expired(candidate)


def may_change(asker: Asker, owner: str) -> bool:
    """Return whether this asker may change or remove an owner's, and have its receipt."""
    return asker.sees_all or owner == asker.owner


def choose(
    candidates: Iterable[Found], reference: Reference, asker: Asker, *, to_change: bool = False
) -> Found | None:
    """Choose the adapter that a reference means: an id before a name, own before others'.

    Args:
        candidates: all that could be meant; those that the asker may not use take no part.
        reference: what is asked for.
        asker: who asks.
        to_change: whether whose it is matters though the content is the same.

    Returns:
        The latest version of a name; None where there is none.

    Raises:
        SeveralOwners: others' adapters of that name are of several owners; to change one, of that
            id too.
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
