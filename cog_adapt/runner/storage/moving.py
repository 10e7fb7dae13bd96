"""Copies a folder of adapters into the remote store: what servers apart have made becomes common.

It may be repeated, also after it was cut off: what the store has already stays as it is. The folder
remains a copy of the store.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from cog_adapt.adapter_metadata import AdapterMetadata
from cog_adapt.adapter_rule import version_of
from cog_adapt.runner.storage.decision_files import DecisionFiles
from cog_adapt.runner.storage.decisions import is_decision
from cog_adapt.runner.storage.folder import Folder, checked_content
from cog_adapt.runner.storage.index import Key
from cog_adapt.runner.storage.remote import Remote


@dataclass(frozen=True)
class Moved:
    """An adapter that has got into the store.

    Attributes:
        known: its metadata there.
        name_before: NAME@vN in the folder if it is another one in the store; else None.
    """

    known: AdapterMetadata
    name_before: str | None


class StoreMove:
    """The way of a folder's adapters, versions and decisions into the store.

    Args:
        root: the folder of adapters, which no server uses meanwhile.
        remote: the store.
    """

    def __init__(self, root: Path, remote: Remote) -> None:
        self._folder = Folder(root)
        self._near = DecisionFiles(root, None)
        self._remote = remote

    def is_served(self) -> bool:
        """Return whether a server, or another command, uses the folder."""
        return self._folder.is_in_use()

    def adapters(self) -> Iterator[Moved]:
        """Copy the adapters, and yield each one.

        Raises:
            StoreError: the store cannot be written.
            WeightsError: a file of the folder is damaged.
        """
        for place in self._folder.places():
            yield from self._adapters_of(place)

    def decisions(self) -> int:
        """Copy the decisions with their receipts; return how many the store lacked (StoreError)."""
        count = 0
        for place in self._folder.places():
            there = self._remote.decisions(place)
            missing = [each for each in self._near.names(place) if each not in there]
            read = ((each, self._near.read(place, each)) for each in missing if is_decision(each))
            for name, content in read:
                self._remote.write_decision(place, name, content or b"")
                count += 1
        return count

    def _adapters_of(self, place: str) -> Iterator[Moved]:
        here = self._found(place)
        stored = {key: self._remote.read_metadata(key) for key in self._remote.keys(place)}
        there = {key: known for key, known in stored.items() if known is not None}
        versions = self._folder.read_versions(place)
        names = {known.name for known in here.values() if known.name is not None}
        given: dict[Key, int] = {}
        for name in sorted(names | versions.keys()):
            marks = self._remote.versions(place, name)
            marks |= {version_of(each): each.id for each in there.values() if each.name == name}
            own = {
                key[1]: version_of(known)
                for key, known in here.items()
                if known.name == name and (key not in there or there[key].name in (None, name))
            }
            claimed = self._claim((place, name), own=own, marks=marks, last=versions.get(name, 0))
            given |= {(place, adapter_id): version for adapter_id, version in claimed.items()}
        for key, known in sorted(here.items(), key=lambda pair: pair[1].created_at):
            yield self._copy(key, known, there=there.get(key), version=given.get(key))

    def _found(self, place: str) -> dict[Key, AdapterMetadata]:
        """Return the adapters whose tensors are in the folder, or in the store."""
        keys = [(place, each) for each in self._folder.ids(place)]
        read = ((key, self._folder.read_metadata(key, None)) for key in keys)
        found = {key: known for key, known in read if known is not None}
        return {
            key: known
            for key, known in found.items()
            if self._folder.holds(key) or self._remote.holds(key)
        }

    def _claim(
        self, of: tuple[str, str], own: Mapping[str, int], marks: Mapping[int, str], last: int
    ) -> dict[str, int]:
        """Claim a name's versions in the store, each marked with its adapter's id.

        From the lowest version that the store has given to another adapter, all get new numbers,
        above those of store and folder, in their order: the latest one remains the latest, and no
        number means another adapter than before.

        Args:
            of: a place and a name.
            own: versions in the folder, by id.
            marks: versions in the store, with the id of the adapter or "".
            last: the last version that the folder has given.
        """
        claimed = {mark: version for version, mark in marks.items() if mark}
        taken = [version for each, version in own.items() if marks.get(version, each) != each]
        lowest, highest = min(taken, default=0), max([last, *own.values(), *marks])
        place, name = of
        given: dict[str, int] = {}
        for adapter_id, version in sorted(own.items(), key=lambda pair: (pair[1], pair[0])):
            above = highest if taken and version >= lowest else version - 1
            given[adapter_id] = claimed.get(adapter_id) or self._remote.next_version(
                place, name, above=above, mark=adapter_id
            )
        if not taken and last > max([0, *own.values(), *marks]):  # its adapter is removed
            self._remote.next_version(place, name, last - 1)
        return given

    def _copy(
        self,
        key: Key,
        known: AdapterMetadata,
        there: AdapterMetadata | None,
        version: int | None,
    ) -> Moved:
        """Copy tensors, then metadata, then the new name into the folder."""
        if self._folder.holds(key) and not self._remote.holds(key):
            content = self._folder.read(key)
            checked_content(content, key[1])
            self._remote.write(key, content)
        before = None if known.name is None else f"{known.name}@v{version_of(known)}"
        named = replace(known, version=version)
        both = named if there is None else _joined(there, named)
        if both != there:
            self._remote.write_metadata(key, both)
        if both != known:
            self._folder.write_metadata(key, both)
        now = None if both.name is None else f"{both.name}@v{version_of(both)}"
        return Moved(both, before if before != now else None)


def _joined(there: AdapterMetadata, here: AdapterMetadata) -> AdapterMetadata:
    """Join what two servers know of equal content: the store's name stays, if it has one."""
    named = there if there.name is not None else here
    return replace(
        there,
        name=named.name,
        version=named.version,
        notes=there.notes or here.notes,
        pinned=there.pinned or here.pinned,
        shared=tuple(dict.fromkeys((*there.shared, *here.shared))),
        hits=max(there.hits, here.hits),
        used_at=max(there.used_at, here.used_at),
    )
