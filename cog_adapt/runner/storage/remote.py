"""Adapters in a remote store, behind any URL that fsspec knows: `s3://…`, `gs://…`, `file://…`.

fsspec is needed only if ADAPTER_STORE is set. This module keeps nothing in memory.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from cog_adapt.adapter_metadata import AdapterMetadata
from cog_adapt.runner.errors import ConfigError, StoreError
from cog_adapt.runner.storage.index import Key
from cog_adapt.runner.storage.names import is_id

_NOBODY = "nobody"  # the place of adapters without an owner: a folder cannot have the name ""


class Remote:
    """A folder of adapters behind a URL.

    Args:
        url: of the folder; fsspec finds the account in the environment.

    Raises:
        ConfigError: the URL, or the package that reads it, is unknown.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        files, root = _open(url)
        self._files = files
        self._root = root
        self._is_local = "file" in self._files.protocol

    def write(self, key: Key, content: bytes) -> None:
        """Write an adapter, whole or not at all (StoreError)."""
        self._write(self._path(key, "safetensors"), content)

    def holds(self, key: Key) -> bool:
        """Return whether the store has an adapter (StoreError)."""
        path = self._path(key, "safetensors")
        with self._asking(path):
            return bool(self._files.exists(path))

    def write_metadata(self, key: Key, known: AdapterMetadata) -> None:
        """Write an adapter's metadata (StoreError)."""
        self._write(self._path(key, "json"), json.dumps(known.to_json(), indent=1).encode())

    def read(self, key: Key) -> bytes | None:
        """Return an adapter's file, or None (StoreError)."""
        return self._read(self._path(key, "safetensors")) if is_id(key[1]) else None

    def read_metadata(self, key: Key) -> AdapterMetadata | None:
        """Return an adapter's metadata, or None (StoreError)."""
        content = self._read(self._path(key, "json"))
        return AdapterMetadata.from_json(content) if content is not None else None

    def remove(self, key: Key) -> None:
        """Remove an adapter (StoreError)."""
        for end in ("json", "safetensors"):
            path = self._path(key, end)
            with suppress(FileNotFoundError), self._asking(path):
                self._files.rm_file(path)

    def keys(self, place: str | None) -> Iterator[Key]:
        """Yield the adapters of a place; None: of all places (StoreError)."""
        folder = self._root if place is None else f"{self._root}/{place or _NOBODY}"
        paths: list[str] = []
        with suppress(FileNotFoundError), self._asking(folder):
            self._files.invalidate_cache()
            paths = self._files.find(folder)
        for path in paths:
            *_, owner, name = path.split("/")
            stem, _, end = name.partition(".")
            if end == "json" and is_id(stem):
                yield ("" if owner == _NOBODY else owner), stem

    def _path(self, key: Key, end: str) -> str:
        return f"{self._root}/{key[0] or _NOBODY}/{key[1]}.{end}"

    def _read(self, path: str) -> bytes | None:
        with suppress(FileNotFoundError), self._asking(path):
            content: bytes = self._files.cat_file(path)
            return content
        return None

    def _write(self, path: str, content: bytes) -> None:
        """Write a file; an object appears at once, a local file by renaming a draft."""
        draft = f"{path}.part" if self._is_local else path
        with self._asking(path):
            self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
            self._files.pipe_file(draft, content)
            if draft != path:
                self._files.mv(draft, path)

    @contextmanager
    def _asking(self, path: str) -> Iterator[None]:
        """Turn every error of a file system behind fsspec into a StoreError."""
        try:
            yield
        except FileNotFoundError:
            raise
        except Exception as error:
            raise StoreError(
                f"{path.rpartition('/')[2]} could not be read from or written to ADAPTER_STORE "
                f"{self._url}: {error}. Check its address and its account."
            ) from error


def _open(url: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs

        files, root = url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise ConfigError(
            f"ADAPTER_STORE is {url!r}: {error}. Install the package that reads it, "
            "`pip install 'cog-adapt[remote]'` for s3://."
        ) from error
    return files, root.rstrip("/")
