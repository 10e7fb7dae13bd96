"""Describes a new adapter: the time, the versions of packages, the digest of its examples."""

import functools
import hashlib
import importlib.metadata
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from cog_adapt.adapter_metadata import AdapterMetadata, Provenance
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.modules.adapters import Adapter

_PACKAGES = ("torch", "transformers", "safetensors", "cog-adapt")


def now() -> str:
    """Return the time in UTC as ISO 8601; all texts have one width, so they sort by time."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def describe(
    adapter: Adapter, *, size: int, owner: str = "", made: Provenance | None = None
) -> AdapterMetadata:
    """Describe an adapter that was just made or uploaded.

    Args:
        adapter: the adapter.
        size: bytes of its file.
        owner: its owner.
        made: its provenance; None: unknown.
    """
    time = now()
    known = vars(made or Provenance())
    return AdapterMetadata(
        id=adapter.id,
        owner=owner,
        base=adapter.base,
        labels=adapter.labels,
        bytes=size,
        tensors=len(adapter.tensors),
        created_at=time,
        used_at=time,
        versions=versions(),
        **(known | {"recipe": dict(known["recipe"]) or {"method": adapter.method}}),
    )


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


def with_uses(known: AdapterMetadata, here: AdapterMetadata | None) -> AdapterMetadata:
    """Add the uses that a process has counted beyond those in metadata."""
    if here is None or here.hits <= known.hits:
        return known
    return replace(known, hits=here.hits, used_at=max(here.used_at, known.used_at))
