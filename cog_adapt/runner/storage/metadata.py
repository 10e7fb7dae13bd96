"""An adapter's metadata: its owner, its provenance, its name.

This module knows no files and no budgets.
"""

import functools
import hashlib
import importlib.metadata
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Self

from cog_adapt.adapter_rule import is_expired
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.modules.adapters import Adapter

_Content = bytes  # `Metadata` has a field named `bytes` too
_PACKAGES = ("torch", "transformers", "safetensors", "cog-adapt")


def now() -> str:
    """Return the time in UTC as ISO 8601; all texts have one width, so they sort by time."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


@dataclass(frozen=True)
class Provenance:
    """How an adapter was made; None or empty if unknown.

    Attributes:
        recipe: with all its defaults filled in.
        examples: the number of training examples, held-out ones included.
        examples_digest: SHA-256 of them in hex.
        score_before: mean held-out score at the start.
        score_after: the same of the adapter.
        parent: the id of the adapter that the adaptation continued from.
    """

    recipe: Mapping[str, Any] = field(default_factory=dict)
    examples: int | None = None
    examples_digest: str | None = None
    score_before: float | None = None
    score_after: float | None = None
    parent: str | None = None


@dataclass(frozen=True)
class Metadata:
    """One adapter of one owner; docs/predictor-protocol.md gives the meaning of each field."""

    id: str
    owner: str
    base: str
    labels: tuple[str, ...]
    bytes: int
    tensors: int
    created_at: str
    used_at: str
    name: str | None = None
    version: int | None = None
    notes: str = ""
    hits: int = 0
    expires_at: str | None = None
    pinned: bool = False
    shared: tuple[str, ...] = ()
    recipe: Mapping[str, Any] = field(default_factory=dict)
    examples: int | None = None
    examples_digest: str | None = None
    score_before: float | None = None
    score_after: float | None = None
    parent: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, adapter: Adapter, size: int, owner: str, made: Provenance) -> Self:
        """Describe an adapter that was just made or uploaded."""
        time = now()
        return cls(
            id=adapter.id,
            owner=owner,
            base=adapter.base,
            labels=adapter.labels,
            bytes=size,
            tensors=len(adapter.tensors),
            created_at=time,
            used_at=time,
            versions=versions(),
            **(vars(made) | {"recipe": dict(made.recipe) or {"method": adapter.method}}),
        )

    @classmethod
    def from_json(cls, text: _Content) -> Self | None:
        """Read what `to_json` wrote; None if it is damaged."""
        try:
            values = json.loads(text)
            known = {name: values[name] for name in (each.name for each in fields(cls))}
            lists = {name: tuple(values[name]) for name in ("labels", "shared")}
            return cls(**(known | lists))
        except (KeyError, TypeError, ValueError):
            return None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        lists = {"labels": list(self.labels), "shared": list(self.shared)}
        return asdict(self) | lists

    @property
    def is_kept(self) -> bool:
        """Whether the disk's budget leaves it in place: it is pinned or named."""
        return self.pinned or self.name is not None

    def is_expired(self, now: datetime | None = None) -> bool:
        """Return whether the adapter has expired."""
        return is_expired(self, now)


@functools.cache
def versions() -> dict[str, str]:
    """Return the versions of the packages that an adapter depends on."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name.replace("-", "_")] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name.replace("-", "_")] = "not installed"
    return found


def digest_of(examples: Sequence[Example]) -> str:
    """Return the SHA-256 of examples, in hex."""
    rows = [[example.input, example.target] for example in examples]
    return hashlib.sha256(json.dumps(rows, default=repr).encode()).hexdigest()
