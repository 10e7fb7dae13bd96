"""All adapters that are known, by place and id, in memory.

A place is the folder of one owner: a digest of the owner's name, "" where there are no owners.
This module reads no files and takes no lock: `AdapterStore` does.
"""

import hashlib
from collections.abc import Iterator

from cog_adapt.runner.errors import InputError
from cog_adapt.runner.storage.metadata import Metadata
from cog_adapt.runner.storage.names import Reference, not_found

Key = tuple[str, str]
"""A place and an id."""


def place_of(owner: str) -> str:
    """Name the place of an owner; an owner's name need not be a name of a folder."""
    return hashlib.sha256(owner.encode()).hexdigest()[:32] if owner else ""


class Index:
    """Metadata by place and id."""

    def __init__(self) -> None:
        self._places: dict[str, dict[str, Metadata]] = {}
        self._names: dict[tuple[str, str], dict[int, str]] = {}
        self._shared: dict[Key, Metadata] = {}
        self._last: dict[str, dict[str, int]] = {}

    def __len__(self) -> int:
        """Count the adapters."""
        return sum(map(len, self._places.values()))

    def __contains__(self, key: Key) -> bool:
        """Return whether an adapter is known."""
        return key[1] in self._places.get(key[0], {})

    def __getitem__(self, key: Key) -> Metadata:
        """Return what is known of an adapter (KeyError)."""
        return self._places[key[0]][key[1]]

    def get(self, key: Key) -> Metadata | None:
        """Return what is known of an adapter; None: nothing, or nothing any more."""
        return self._places.get(key[0], {}).get(key[1])

    def __setitem__(self, key: Key, known: Metadata) -> None:
        """Note what is known of an adapter."""
        if key in self:
            self._unlink(key)
        self._places.setdefault(key[0], {})[key[1]] = known
        if known.shared:
            self._shared[key] = known
        if known.name is not None:
            version = known.version or 1
            self._names.setdefault((key[0], known.name), {})[version] = key[1]
            self.note_last(key[0], {known.name: version})

    def __delitem__(self, key: Key) -> None:
        """Forget an adapter (KeyError)."""
        self._unlink(key)
        del self._places[key[0]][key[1]]
        if not self._places[key[0]]:
            del self._places[key[0]]

    def last_versions(self, place: str) -> dict[str, int]:
        """Return the last version of each name that a place ever gave."""
        return dict(self._last.get(place, {}))

    def note_last(self, place: str, versions: dict[str, int]) -> None:
        """Note versions that were given: a name never gives one twice."""
        last = self._last.setdefault(place, {})
        last |= {name: max(version, last.get(name, 0)) for name, version in versions.items()}

    def items(self, place: str | None = None) -> Iterator[tuple[Key, Metadata]]:
        """Yield the adapters of a place; None: of all."""
        for each in [*self._places] if place is None else [place]:
            for adapter_id, known in [*self._places.get(each, {}).items()]:
                yield (each, adapter_id), known

    def own(self, reference: Reference, place: str) -> Key | None:
        """Find what a place's owner calls so."""
        keys = (key for key in self._named(reference, place) if not self[key].is_expired())
        return next(keys, None)

    def find(self, reference: Reference, owner: str, text: str) -> Key:
        """Find an adapter for its use: the owner's own, else shared ones, else nobody's.

        Raises:
            AdapterNotFound: none.
            InputError: several owners share one of that name.
        """
        own = self.own(reference, place_of(owner))
        return own or self._shared_with(reference, owner, text) or self._nobodys(reference, text)

    def _unlink(self, key: Key) -> None:
        known = self[key]
        self._shared.pop(key, None)
        if known.name is not None:
            versions = self._names[key[0], known.name]
            del versions[known.version or 1]
            if not versions:
                del self._names[key[0], known.name]

    def _named(self, reference: Reference, place: str) -> Iterator[Key]:
        """Yield what a place calls so, the latest version first."""
        if reference.name is None:
            key = (place, reference.id or "")
            yield from [key] if key in self else []
            return
        versions = self._names.get((place, reference.name), {})
        for version in sorted(versions, reverse=True):
            if reference.version in (None, version):
                yield place, versions[version]

    def _shared_with(self, reference: Reference, owner: str, text: str) -> Key | None:
        places = {key[0] for key, known in self._shared.items() if known.is_shared_with(owner)}
        shown = [self._latest_shared(reference, place, owner) for place in sorted(places)]
        found = [key for key in shown if key]
        if len(found) > 1 and reference.id is None:
            ids = ", ".join(key[1] for key in found)
            raise InputError(
                f"adapter {text!r} is shared by {len(found)} owners. Name one by its id: {ids}."
            )
        return next(iter(found), None)

    def _latest_shared(self, reference: Reference, place: str, owner: str) -> Key | None:
        keys = (key for key in self._named(reference, place) if not self[key].is_expired())
        return next((key for key in keys if self[key].is_shared_with(owner)), None)

    def _nobodys(self, reference: Reference, text: str) -> Key:
        key = self.own(reference, "")
        if key is None:
            raise not_found(text)
        return key
