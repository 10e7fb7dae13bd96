"""The metadata of an adapter: one description for files, the index, HTTP and its OpenAPI document.

docs/predictor-protocol.md gives the meaning of each field. This module knows no file, no budget and
no transport.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import Annotated, Any, Self, TypeAlias

from cog_adapt.adapter_rule import is_expired

MetadataJson: TypeAlias = dict[str, Any]
"""Metadata as a JSON object; a predictor of one's own may add keys, and leave some out."""
Moment: TypeAlias = Annotated[str, "date-time"]
"""A time in UTC as ISO 8601."""
_Content = bytes  # `AdapterMetadata` has a field named `bytes` too


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """The making of an adapter; None or empty if unknown.

    Attributes:
        recipe: with all its defaults filled in.
        examples: the number of training examples, held-out ones included.
        examples_digest: SHA-256 of them in hex.
        score_before: mean held-out score at the start.
        score_after: mean held-out score of the adapter.
        parent: the id of the adapter that the adaptation continued from.
    """

    recipe: Mapping[str, Any] = field(default_factory=dict)
    examples: int | None = None
    examples_digest: str | None = None
    score_before: float | None = None
    score_after: float | None = None
    parent: str | None = None


@dataclass(frozen=True, kw_only=True)
class AdapterMetadata(Provenance):
    """One adapter of one owner."""

    id: str
    owner: str
    base: str
    labels: tuple[str, ...]
    bytes: int
    tensors: int
    created_at: Moment
    used_at: Moment
    name: str | None = None
    version: int | None = None
    notes: str = ""
    hits: int = 0
    expires_at: Moment | None = None
    pinned: bool = False
    shared: tuple[str, ...] = ()
    versions: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, text: _Content) -> Self | None:
        """Read the content that `to_json` wrote; return None if it is damaged."""
        try:
            values = json.loads(text)
            known = {name: values[name] for name in (each.name for each in fields(cls))}
            lists = {name: tuple(values[name]) for name in ("labels", "shared")}
            return cls(**(known | lists))
        except (KeyError, TypeError, ValueError):
            return None

    def to_json(self) -> MetadataJson:
        """Return plain JSON values."""
        lists = {"labels": list(self.labels), "shared": list(self.shared)}
        return asdict(self) | lists

    @property
    def is_kept(self) -> bool:
        """Whether the disk's budget leaves the adapter in place: it is pinned or named."""
        return self.pinned or self.name is not None

    def is_expired(self, now: datetime | None = None) -> bool:
        """Return whether the adapter has expired."""
        return is_expired(self, now)
