"""Adapters in a remote store: files, metadata, decisions, and the versions that a name has given.

This module keeps nothing in memory.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from cog_adapt.adapter_metadata import AdapterMetadata
from cog_adapt.runner.errors import StoreError
from cog_adapt.runner.storage.index import Key
from cog_adapt.runner.storage.names import is_id
from cog_adapt.runner.storage.objects import open_objects

_SECONDS_A_DAY = 86_400
_NOBODY = "nobody"  # the place of adapters without an owner: a folder cannot have the name ""


class Remote:
    """A folder of adapters behind a URL.

    Args:
        url: of the folder; the account is in the environment.

    Attributes:
        url: the same.

    Raises:
        ConfigError: the URL, or the package that reads it, is unknown.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._objects = open_objects(url)

    def write(self, key: Key, content: bytes) -> None:
        """Write an adapter, whole or not at all (StoreError)."""
        self._write(_path(key, "safetensors"), content)

    def holds(self, key: Key) -> bool:
        """Return whether the store has an adapter (StoreError)."""
        path = _path(key, "safetensors")
        with self._asking(path):
            return self._objects.holds(path)

    def write_metadata(self, key: Key, known: AdapterMetadata) -> None:
        """Write an adapter's metadata (StoreError)."""
        self._write(_path(key, "json"), json.dumps(known.to_json(), indent=1).encode())

    def read(self, key: Key) -> bytes | None:
        """Return an adapter's file, or None (StoreError)."""
        return self._read(_path(key, "safetensors")) if is_id(key[1]) else None

    def read_metadata(self, key: Key) -> AdapterMetadata | None:
        """Return an adapter's metadata, or None (StoreError)."""
        content = self._read(_path(key, "json"))
        return AdapterMetadata.from_json(content) if content is not None else None

    def remove(self, key: Key) -> None:
        """Remove an adapter (StoreError); after half of it, it can be removed again."""
        for end in ("safetensors", "json"):
            self._remove(_path(key, end))

    def keys(self, place: str | None) -> Iterator[Key]:
        """Yield the adapters of a place; None: of all places (StoreError)."""
        for key, _ in self.times(place):
            yield key

    def times(self, place: str | None) -> Iterator[tuple[Key, float]]:
        """Yield the adapters of a place, each with the time when its metadata was written.

        Args:
            place: of an owner; None: all places.

        Raises:
            StoreError: the store cannot be read.
        """
        for path, written in self._list("" if place is None else place or _NOBODY):
            owner, _, name = path.partition("/")
            stem, _, end = name.partition(".")
            if end == "json" and is_id(stem):
                yield (("" if owner == _NOBODY else owner), stem), written

    def versions(self, place: str, name: str) -> dict[int, str]:
        """Return a name's versions, each with the adapter that it is marked with, or "".

        Those that `next_version` has removed are left out.

        Raises:
            StoreError: the store cannot be read.
        """
        folder = _versions(place, name)
        given = [int(path.rpartition("/")[2]) for path, _ in self._list(folder)]
        return {each: (self._read(f"{folder}/{each}") or b"").decode() for each in sorted(given)}

    def next_version(self, place: str, name: str, above: int = 0, mark: str = "") -> int:
        """Give a name's next version, which no other process gets (StoreError).

        A version is a small object, made only where there is none. Those that are a day older than
        the last are removed: a process would make one of them again only if it had waited for a day
        between its look and its write.

        Args:
            place: of the owner.
            name: of the adapter; its characters may stand in a path.
            above: a version that was given earlier, by whatever process.
            mark: the id of the adapter that gets it, to find its version again; then `above` need
                not be below the versions of the store.
        """
        folder = _versions(place, name)
        given = {int(path.rpartition("/")[2]): made for path, made in self._list(folder)}
        version = above if mark else max(above, *given, 0)
        is_made = False
        while not is_made:
            version += 1
            with self._asking(folder):
                is_made = self._objects.create(f"{folder}/{version}", mark.encode())
        oldest = max(given.values(), default=0.0) - _SECONDS_A_DAY
        for old in [each for each, made in given.items() if made < oldest]:
            self._remove(f"{folder}/{old}")
        return version

    def decisions(self, place: str, key: str = "") -> dict[str, float]:
        """Return the names of a place's decisions, of a key or of all, and their times.

        Raises:
            StoreError: the store cannot be read.
        """
        folder = f"{place or _NOBODY}/decisions" + (f"/{key}" if key else "")
        paths = ((path.split("/"), written) for path, written in self._list(folder))
        return {f"{parts[-2]}-{parts[-1]}": written for parts, written in paths}

    def read_decision(self, place: str, name: str) -> bytes | None:
        """Return a decision, or None (StoreError)."""
        return self._read(_decision(place, name))

    def write_decision(self, place: str, name: str, content: bytes) -> None:
        """Write a decision (StoreError)."""
        self._write(_decision(place, name), content)

    def remove_decision(self, place: str, name: str) -> None:
        """Remove a decision, if it is there (StoreError)."""
        self._remove(_decision(place, name))

    def _list(self, folder: str) -> list[tuple[str, float]]:
        with self._asking(folder):
            return [*self._objects.list(folder)]

    def _read(self, path: str) -> bytes | None:
        with self._asking(path):
            return self._objects.get(path)

    def _write(self, path: str, content: bytes) -> None:
        with self._asking(path):
            self._objects.put(path, content)

    def _remove(self, path: str) -> None:
        with self._asking(path):
            self._objects.remove(path)

    @contextmanager
    def _asking(self, path: str) -> Iterator[None]:
        """Turn every error of the store's package into a StoreError."""
        try:
            yield
        except Exception as error:
            raise StoreError(
                f"{path.rpartition('/')[2]} could not be read from or written to ADAPTER_STORE "
                f"{self.url}: {error}. Check its address and its account."
            ) from error


def _path(key: Key, end: str) -> str:
    return f"{key[0] or _NOBODY}/{key[1]}.{end}"


def _versions(place: str, name: str) -> str:
    return f"{place or _NOBODY}/versions/{name}"


def _decision(place: str, name: str) -> str:
    """Return the path of a decision, in a folder of its key's decisions alone."""
    key, _, rest = name.partition("-")
    return f"{place or _NOBODY}/decisions/{key}/{rest}"
