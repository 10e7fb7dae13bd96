"""The objects of a store behind a URL: read, written, made once, listed and removed by path.

obstore reads s3, gs, az, file and memory; other schemes are fsspec's, whose package the operator
installs. Either is imported only if a store is opened. This module knows no adapters.
"""

import functools
import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import SplitResult, unquote, urlsplit

from cog_adapt.runner.errors import ConfigError

_CONNECT = timedelta(seconds=5)
_SILENCE = timedelta(seconds=30)  # of a connection, after which a request is repeated
_TRIES = timedelta(seconds=10)  # in which a request is repeated
_AZURE_SCHEMES = ("az", "abfs", "abfss")
_LISTED_AT_ONCE = 1000


class Objects(Protocol):
    """The objects below a URL; a path has no slash at its ends.

    Every method may raise the errors of its package; a missing object is None, or nothing.
    """

    def get(self, path: str) -> bytes | None:
        """Return an object's content, or None."""

    def put(self, path: str, content: bytes) -> None:
        """Write an object, whole or not at all."""

    def create(self, path: str, content: bytes) -> bool:
        """Write an object unless there is one; of several writers one gets True."""

    def holds(self, path: str) -> bool:
        """Return whether there is an object."""

    def remove(self, path: str) -> None:
        """Remove an object, if there is one."""

    def list(self, folder: str) -> Iterator[tuple[str, float]]:
        """Yield the paths below a folder, also in folders of it, and the times of last writes."""


def open_objects(url: str) -> Objects:
    """Open the store of a URL; nothing is read yet.

    Raises:
        ConfigError: the URL, or the package that reads it, is unknown.
    """
    parts = urlsplit(url if "://" in url else Path(url).absolute().as_uri())
    opened = _Obstore if parts.scheme in _STORES else _Fsspec
    try:
        return opened(parts)
    except ConfigError:
        raise
    except ImportError as error:
        package = (
            "`pip install 'cog-adapt[remote]'`" if opened is _Obstore else "a package of fsspec"
        )
        raise ConfigError(
            f"ADAPTER_STORE is {url!r}: {error}. Install the package that reads it, {package}."
        ) from error
    except Exception as error:  # of the package, for instance without the name of an account
        known = ", ".join(f"{scheme}://" for scheme in _STORES)
        raise ConfigError(
            f"ADAPTER_STORE is {url!r}: {error}. Correct it, or install the package of fsspec that "
            f"reads it; {known} need none."
        ) from error


class _Obstore:
    """A store that obstore reads."""

    def __init__(self, parts: SplitResult) -> None:
        import obstore

        self._obstore = obstore
        self._open = functools.partial(_STORES[parts.scheme], parts)
        self._opened = None if parts.scheme == "file" else self._open()

    @property
    def _store(self) -> Any:  # noqa: ANN401 - the package is imported only if it is used
        if self._opened is None:  # makes the folder, and fails while a file is in its way
            self._opened = self._open()
        return self._opened

    def get(self, path: str) -> bytes | None:
        with suppress(FileNotFoundError):
            return bytes(self._obstore.get(self._store, path).bytes())
        return None

    def put(self, path: str, content: bytes) -> None:
        self._obstore.put(self._store, path, content)

    def create(self, path: str, content: bytes) -> bool:
        from obstore.exceptions import AlreadyExistsError

        try:
            self._obstore.put(self._store, path, content, mode="create")
        except AlreadyExistsError:
            return False
        return True

    def holds(self, path: str) -> bool:
        with suppress(FileNotFoundError):
            self._obstore.head(self._store, path)
            return True
        return False

    def remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            self._obstore.delete(self._store, path)

    def list(self, folder: str) -> Iterator[tuple[str, float]]:
        for page in self._obstore.list(self._store, folder, chunk_size=_LISTED_AT_ONCE):
            for each in page:
                yield each["path"], each["last_modified"].timestamp()


class _Fsspec:
    """A store that another package of fsspec reads."""

    def __init__(self, parts: SplitResult) -> None:
        from fsspec.core import url_to_fs

        self._files, root = url_to_fs(parts.geturl())
        self._root = root.rstrip("/")

    def get(self, path: str) -> bytes | None:
        with suppress(FileNotFoundError):
            content: bytes = self._files.cat_file(self._at(path))
            return content
        return None

    def put(self, path: str, content: bytes) -> None:
        self._make_folder(path)
        self._files.pipe_file(self._at(path), content)

    def create(self, path: str, content: bytes) -> bool:
        self._make_folder(path)
        try:
            self._files.pipe_file(self._at(path), content, mode="create")
        except FileExistsError:
            return False
        return True

    def holds(self, path: str) -> bool:
        return bool(self._files.exists(self._at(path)))

    def remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            self._files.rm_file(self._at(path))

    def list(self, folder: str) -> Iterator[tuple[str, float]]:
        self._files.invalidate_cache()
        found: dict[str, dict[str, Any]] = {}
        with suppress(FileNotFoundError):
            found = self._files.find(self._at(folder), detail=True)
        for path, about in found.items():
            yield path[len(self._root) + 1 :], _time_of(about)

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    def _make_folder(self, path: str) -> None:
        self._files.makedirs(self._at(path).rpartition("/")[0], exist_ok=True)


def _time_of(about: dict[str, Any]) -> float:
    """Return the time of an object's last write, whose name differs by package; 0: unknown."""
    for name in ("LastModified", "last_modified", "mtime", "updated", "created"):
        value = about.get(name)
        if isinstance(value, datetime):
            return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
        if isinstance(value, int | float):
            return float(value)
    return 0.0


def _s3(parts: SplitResult) -> Any:  # noqa: ANN401 - the package is imported only if it is used
    from obstore.store import S3Store

    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
    options = _options() | {"allow_http": endpoint.startswith("http://")}
    config = {"endpoint": endpoint} if endpoint else {}
    more: dict[str, Any] = {}
    if os.environ.get("AWS_PROFILE"):
        more["credential_provider"] = _profile()
    return S3Store(
        parts.netloc,
        prefix=_prefix(parts),
        config=config,
        client_options=options,
        retry_config={"retry_timeout": _TRIES},
        **more,
    )


def _profile() -> Any:  # noqa: ANN401 - the package is imported only if it is used
    """Return the account of AWS_PROFILE, whose files boto3 alone reads."""
    try:
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError as error:
        raise ConfigError(
            "AWS_PROFILE is set, and profiles are read by boto3. `pip install boto3`, or set "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in its place."
        ) from error
    return Boto3CredentialProvider()


def _gs(parts: SplitResult) -> Any:  # noqa: ANN401 - the package is imported only if it is used
    from obstore.store import GCSStore

    return GCSStore(
        parts.netloc,
        prefix=_prefix(parts),
        client_options=_options(),
        retry_config={"retry_timeout": _TRIES},
    )


def _az(parts: SplitResult) -> Any:  # noqa: ANN401 - the package is imported only if it is used
    """Open az://CONTAINER/… of AZURE_STORAGE_ACCOUNT_NAME, or abfs://CONTAINER@ACCOUNT.…/…."""
    from obstore.store import AzureStore

    container, _, host = parts.netloc.partition("@")
    more = {"account_name": host.partition(".")[0]} if host else {}
    return AzureStore(
        container,
        prefix=_prefix(parts),
        client_options=_options(),
        retry_config={"retry_timeout": _TRIES},
        **more,
    )


def _file(parts: SplitResult) -> Any:  # noqa: ANN401 - the package is imported only if it is used
    from obstore.store import LocalStore

    return LocalStore(unquote(parts.path), mkdir=True)


def _memory(parts: SplitResult) -> Any:  # noqa: ANN401 - the package is imported only if it is used
    return _memory_of(parts.netloc + parts.path)


@functools.cache
def _memory_of(_address: str) -> Any:  # noqa: ANN401 - the package is imported only if it is used
    """Return the objects of an address, which live as long as the process."""
    from obstore.store import MemoryStore

    return MemoryStore()


def _prefix(parts: SplitResult) -> str | None:
    return parts.path.strip("/") or None


def _options() -> dict[str, Any]:
    return {"connect_timeout": _CONNECT, "read_timeout": _SILENCE, "timeout": timedelta(minutes=5)}


_STORES = {
    "s3": _s3,
    "s3a": _s3,
    "gs": _gs,
    **dict.fromkeys(_AZURE_SCHEMES, _az),
    "file": _file,
    "memory": _memory,
}
