"""The index of all adapters in memory, by place and id.

A place is the folder of one owner: a digest of the owner's name, or "" without owners. This module
reads no files and takes no lock: `AdapterStore` does.
"""

import hashlib
from collections.abc import Iterator

from cog_adapt.adapter_metadata import AdapterMetadata
from cog_adapt.adapter_rule import Asker, Reference, choose, version_of

Key = tuple[str, str]
"""A place and an id."""


def place_of(owner: str) -> str:
    """Return the place of an owner; an owner's name may be no valid folder name."""
    return hashlib.sha256(owner.encode()).hexdigest()[:32] if owner else ""


class Index:
    """AdapterMetadata by place and id."""

    def __init__(self) -> None:
        self._places: dict[str, dict[str, AdapterMetadata]] = {}
        self._names: dict[tuple[str, str], dict[int, str]] = {}
        self._shared: dict[str, dict[Key, None]] = {}  # shared adapters, by id and by name
        self._last: dict[str, dict[str, int]] = {}

    def __len__(self) -> int:
        """Count the adapters."""
        return sum(map(len, self._places.values()))

    def __contains__(self, key: Key) -> bool:
        """Return whether an adapter is in the index."""
        return key[1] in self._places.get(key[0], {})

    def __getitem__(self, key: Key) -> AdapterMetadata:
        """Return an adapter's metadata (KeyError if the index lacks the adapter)."""
        return self._places[key[0]][key[1]]

    def get(self, key: Key) -> AdapterMetadata | None:
        """Return an adapter's metadata, or None."""
        return self._places.get(key[0], {}).get(key[1])

    def __setitem__(self, key: Key, known: AdapterMetadata) -> None:
        """Store an adapter's metadata."""
        if key in self:
            self._unlink(key)
        self._places.setdefault(key[0], {})[key[1]] = known
        if known.shared:
            for text in _texts(known):
                self._shared.setdefault(text, {})[key] = None
        if known.name is not None:
            version = version_of(known)
            self._names.setdefault((key[0], known.name), {})[version] = key[1]
            self.note_last(key[0], {known.name: version})

    def __delitem__(self, key: Key) -> None:
        """Remove an adapter (KeyError if the index lacks the adapter)."""
        self._unlink(key)
        del self._places[key[0]][key[1]]
        if not self._places[key[0]]:
            del self._places[key[0]]

    def last_versions(self, place: str) -> dict[str, int]:
        """Return the last version number that each name of a place has ever had."""
        return dict(self._last.get(place, {}))

    def note_last(self, place: str, versions: dict[str, int]) -> None:
        """Note each name's last version number, so that a name gives each number only once."""
        last = self._last.setdefault(place, {})
        last |= {name: max(version, last.get(name, 0)) for name, version in versions.items()}

    def items(self, place: str | None = None) -> Iterator[tuple[Key, AdapterMetadata]]:
        """Yield the adapters of a place; None: of all."""
        for each in [*self._places] if place is None else [place]:
            for adapter_id, known in [*self._places.get(each, {}).items()]:
                yield (each, adapter_id), known

    def find(self, reference: Reference, asker: Asker) -> Key | None:
        """Find the adapter that a reference means to an asker, or None.

        Raises:
            SeveralOwners: the reference fits adapters of several owners.
        """
        candidates = self._candidates(reference, asker)
        found = choose(candidates.values(), reference, asker)
        return next((key for key, known in candidates.items() if known is found), None)

    def _unlink(self, key: Key) -> None:
        known = self[key]
        for text in _texts(known) if known.shared else ():
            del self._shared[text][key]
            if not self._shared[text]:
                del self._shared[text]
        if known.name is not None:
            versions = self._names.get((key[0], known.name), {})
            # two old adapters may have the same version
            if versions.get(version_of(known)) == key[1]:
                del versions[version_of(known)]
            if not versions:
                self._names.pop((key[0], known.name), None)

    def _candidates(self, reference: Reference, asker: Asker) -> dict[Key, AdapterMetadata]:
        """Find the adapters that an asker may use: own and shared ones; for an admin, all."""
        places = [*self._places] if asker.sees_all else [place_of(asker.owner)]
        keys = [key for place in places for key in self._named(reference, place)]
        for text in (reference.text, reference.name):
            keys += self._shared.get(text, ())
        return {key: self[key] for key in keys}

    def _named(self, reference: Reference, place: str) -> Iterator[Key]:
        """Yield a place's adapters of this name."""
        if (place, reference.text) in self:
            yield place, reference.text
        for adapter_id in self._names.get((place, reference.name), {}).values():
            yield place, adapter_id


def _texts(known: AdapterMetadata) -> tuple[str, ...]:
    """Return the references that fit an adapter."""
    return (known.id,) if known.name is None else (known.id, known.name)
