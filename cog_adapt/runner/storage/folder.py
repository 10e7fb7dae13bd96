"""The files of adapters on disk: `<id>.safetensors`, and `<id>.json` with the metadata.

An owner's files lie in `owners/<place>`; those without an owner in the folder itself. This module
knows no budget and keeps nothing in memory.
"""

import fcntl
import json
import logging
import os
import re
import secrets
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cog_adapt.adapter_metadata import AdapterMetadata
from cog_adapt.runner.data.files import write_whole
from cog_adapt.runner.errors import InputError, StoreError, WeightsError
from cog_adapt.runner.modules.adapters import Adapter, adapter_from_bytes, header_of
from cog_adapt.runner.storage.file_locks import is_locked_now, locked_file
from cog_adapt.runner.storage.index import Key, place_of
from cog_adapt.runner.storage.names import is_id

_PLACE = re.compile(r"[0-9a-f]{32}")
logger = logging.getLogger(__name__)
_LOCK_SECONDS, _WRITING_SECONDS = 10.0, 60.0


class Folder:
    """A folder of adapters.

    Args:
        root: made when the first adapter is written.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._leave: weakref.finalize[..., Folder] | None = None

    def path(self, key: Key) -> Path:
        """Return the path of an adapter's file; the file need not exist."""
        place, adapter_id = key
        return (self.root / "owners" / place if place else self.root) / f"{adapter_id}.safetensors"

    def holds(self, key: Key) -> bool:
        """Return whether the adapter's file exists."""
        return is_id(key[1]) and self.path(key).is_file()

    def write(self, key: Key, content: bytes) -> Path:
        """Write an adapter, whole or not at all; an existing file stays (StoreError)."""
        path = self.path(key)
        if not path.exists():
            write_whole(path, content)
        return path

    def write_metadata(self, key: Key, known: AdapterMetadata) -> None:
        """Write an adapter's metadata, whole or not at all (StoreError)."""
        text = json.dumps(known.to_json(), indent=1).encode()
        write_whole(self.path(key).with_suffix(".json"), text)

    def read(self, key: Key) -> bytes:
        """Read an adapter's file.

        Raises:
            WeightsError: the file is missing or cannot be read.
        """
        path = self.path(key)
        try:
            return path.read_bytes()
        except OSError as error:
            raise WeightsError(
                f"{path.name} cannot be read: {error}. Repair the folder of WEIGHTS_DIR."
            ) from error

    def read_metadata(self, key: Key, owner: str | None) -> AdapterMetadata | None:
        """Read an adapter's metadata; a file from before there was metadata gets some.

        Args:
            key: its place and id.
            owner: None if only the place is known.

        Returns:
            None if there is no such adapter.
        """
        return self.read_written(key) or _taken_in(self.path(key), _owner_of(key[0], owner))

    def read_written(self, key: Key) -> AdapterMetadata | None:
        """Read an adapter's metadata as it is on disk now, or None."""
        try:
            known = AdapterMetadata.from_json(self.path(key).with_suffix(".json").read_bytes())
        except OSError:
            return None
        is_its_own = known and known.id == key[1] and place_of(known.owner) == key[0]
        return known if is_its_own else None

    def read_versions(self, place: str) -> dict[str, int]:
        """Read the last version of each name that a place has given."""
        try:
            versions = json.loads(self._versions(place).read_bytes())
        except (OSError, ValueError):
            return {}
        return {name: int(version) for name, version in versions.items()}

    def write_versions(self, place: str, versions: dict[str, int]) -> None:
        """Write the last version of each name that a place has given (StoreError)."""
        write_whole(self._versions(place), json.dumps(versions).encode())

    @contextmanager
    def locked(self, place: str) -> Iterator[None]:
        """Hold the lock on a place's metadata and versions: one process at a time (StoreError)."""
        with locked_file(self._versions(place).with_suffix(".lock"), _LOCK_SECONDS):
            yield

    @contextmanager
    def locked_bytes(self) -> Iterator[None]:
        """Hold the lock on the budget of bytes, in which one process at a time writes (StoreError).

        The lock includes the writing of a file, which takes seconds if the file is large.
        """
        with locked_file(self.root / "disk.lock", _WRITING_SECONDS):
            yield

    def use(self) -> None:
        """Mark the folder as in use by this process, until `close`."""
        if self._leave is not None or not self.root.is_dir():
            return
        with suppress(OSError):  # the folder cannot be written, or the disk has no locks
            descriptor = os.open(self.root / _IN_USE, os.O_WRONLY | os.O_CREAT, 0o666)
            self._leave = weakref.finalize(self, os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)

    def is_in_use(self) -> bool:
        """Return whether any process, including this one, uses the folder."""
        try:
            with (self.root / _IN_USE).open() as file:
                return not is_locked_now(file)
        except OSError:
            return False

    def close(self) -> None:
        """Remove this process's mark."""
        if self._leave is not None:
            self._leave()
            self._leave = None

    def described(self) -> dict[str, str] | None:
        """Return the folder's path, and its identity: who reads the same one shares the folder.

        None: nothing can be written here, so no server makes adapters here.
        """
        path = self.root / _IDENTITY
        try:
            with locked_file(path.with_suffix(".lock"), _LOCK_SECONDS):
                _write_once(path, secrets.token_hex(16))
            return {"identity": path.read_text(), "path": str(self.root.absolute())}
        except (OSError, StoreError) as error:
            logger.warning("the folder of adapters has no identity: %s", error)
            return None

    def written_at(self, key: Key) -> float:
        """Return the time of the last write of an adapter's metadata, in s since 1970; or 0."""
        try:
            return self.path(key).with_suffix(".json").stat().st_mtime
        except OSError:
            return 0.0

    def remove(self, key: Key) -> None:
        """Remove an adapter's files (StoreError); after half of them, it can be removed again."""
        self.remove_content(key)
        remove_file(self.path(key).with_suffix(".json"))

    def remove_content(self, key: Key) -> None:
        """Remove an adapter's tensors; its metadata stays (StoreError)."""
        remove_file(self.path(key))

    def places(self) -> Iterator[str]:
        """Yield the places that have a folder."""
        yield ""
        with suppress(FileNotFoundError, NotADirectoryError):
            yield from filter(_PLACE.fullmatch, sorted(os.listdir(self.root / "owners")))

    def place(self, place: str) -> Path:
        """Return the folder of a place, which need not exist."""
        return self.path((place, "")).parent

    def ids(self, place: str) -> set[str]:
        """Return the ids of the adapters of a place, with or without tensors on disk."""
        return {*self.times(place)}

    def stored_ids(self, place: str) -> set[str]:
        """Return the ids of the adapters of a place whose tensors are on disk."""
        names = (os.path.splitext(entry.name) for entry in _entries_of(self.place(place)))
        return {stem for stem, end in names if end == _TENSORS and is_id(stem)}

    def times(self, place: str) -> dict[str, int]:
        """Return the ids of the adapters of a place, with or without tensors on disk.

        Each has the time of the last write of its metadata, in ns; 0 without metadata.
        """
        found: dict[str, int] = {}
        for entry in _entries_of(self.place(place)):
            stem, end = os.path.splitext(entry.name)
            if end in _ENDS and is_id(stem):
                written_at = _written_at(entry) if end == ".json" else 0
                found[stem] = max(written_at, found.get(stem, 0))
        return found

    def has_any(self, key: Key) -> bool:
        """Return whether an adapter has a file, of tensors or of metadata."""
        return any(self.path(key).with_suffix(end).is_file() for end in _ENDS)

    def _versions(self, place: str) -> Path:
        return self.path((place, "")).with_name("versions.json")


_TENSORS = ".safetensors"
_ENDS = (_TENSORS, ".json")
_IN_USE, _IDENTITY = "in-use.lock", "identity"


def _entries_of(folder: Path) -> "Iterator[os.DirEntry[str]]":
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        yield from entries


def _written_at(entry: "os.DirEntry[str]") -> int:
    try:
        return entry.stat().st_mtime_ns
    except FileNotFoundError:  # it was removed after the folder was read
        return 0


def _write_once(path: Path, text: str) -> None:
    if not path.exists():
        write_whole(path, text.encode())


def checked_content(content: bytes, adapter_id: str) -> Adapter:
    """Read an adapter from its bytes, and check them against its id.

    Raises:
        WeightsError: the bytes do not give this id.
    """
    adapter = adapter_from_bytes(content, f"adapter {adapter_id}")
    if adapter.id != adapter_id:
        raise WeightsError(
            f"adapter {adapter_id} is damaged: its file has the digest {adapter.id}. Make it again "
            "from its examples, or restore its file from a copy."
        )
    return adapter


def remove_file(path: Path) -> None:
    """Remove a file, if it is there (StoreError)."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(
            f"{path.name} could not be removed: {error}. Make the folder of WEIGHTS_DIR writable."
        ) from error


def _owner_of(place: str, owner: str | None) -> str:
    """Return the owner of a place; if the owner is unknown, return the place itself."""
    if owner is not None:
        return owner
    return f"sha256:{place}" if place else ""


def _taken_in(path: Path, owner: str) -> AdapterMetadata | None:
    """Describe an adapter that lies in the folder without metadata; None: it is no adapter."""
    try:
        header, tensors = header_of(path)
        about = path.stat()
    except (OSError, InputError, WeightsError):
        return None
    written_at = datetime.fromtimestamp(about.st_mtime, UTC).isoformat(timespec="microseconds")
    values: dict[str, Any] = {
        "labels": tuple(header["labels"]),
        "recipe": {"method": header["method"]},
        "bytes": about.st_size,
    }
    return AdapterMetadata(
        id=path.stem,
        owner=owner,
        base=header["base"],
        tensors=tensors,
        created_at=written_at,
        used_at=written_at,
        **values,
    )
