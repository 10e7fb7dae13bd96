"""Fetches the files of a prediction's inputs before it runs, and removes them after it."""

import contextlib
import functools
import mimetypes
import os
import shutil
import tempfile
import urllib.parse
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import BinaryIO

from cog_adapt.server.egress import Egress, Transfer
from cog_adapt.server.errors import InputError
from cog_adapt.server.files.upload_rows import open_uploads
from cog_adapt.server.files.uploads import Uploads, id_in_url
from cog_adapt.server.worker.config import WorkerConfig
from cog_adapt.server.worker.data_urls import data_url_pieces

_AT_ONCE = 8
_SECONDS = 10.0
_MOST_NAME_BYTES = 200
_MOST_HEAD = 256  # characters; to cut a data URL of 22 MB takes the event loop 20 ms
_POLL = 0.02


class Downloads:
    """Fetches the URLs that callers name, under the configured limits."""

    def __init__(self, config: WorkerConfig, owner: str = "", egress: Egress | None = None) -> None:
        self._config = config
        self._owner = owner
        self._egress = egress or Egress(config.egress_allow)

    def of(self, owner: str) -> "Downloads":
        """Return the downloads of one owner, who alone reads its uploads."""
        return Downloads(self._config, owner, self._egress)

    def new_file(self, name: str) -> Path:
        """Make a new empty file whose name ends in `name`."""
        handle, path = tempfile.mkstemp(suffix=name, prefix=self._config.prefix)
        os.close(handle)
        return Path(path)

    def file_name(self, url: str) -> str:
        """Return the end of the name of a URL's file; an upload has the name of its file.

        Raises:
            InputError: the text is no URL.
        """
        identifier = id_in_url(url)
        if identifier is None or self._config.uploads is None:
            return file_name(url)
        upload = self._uploads(self._config.uploads).get(self._owner, identifier)
        return file_name(url if upload is None else _url_of(upload.name))

    def new_transfer(self) -> Transfer:
        """Return the time limits of one file."""
        return Transfer(_SECONDS, self._config.download_seconds)

    def fetch(self, url: str, path: Path, transfer: Transfer) -> None:
        """Write a URL's content to a file; an upload's content is copied without a request.

        Raises:
            InputError: the URL cannot be fetched, or names no upload of this owner.
        """
        most = self._config.max_file_bytes
        upload = id_in_url(url)
        if upload is not None and self._config.uploads is not None:
            _copy_upload(self._uploads(self._config.uploads), self._owner, upload, path)
            return
        if url.startswith("data:"):
            with path.open("wb") as file:
                file.writelines(data_url_pieces(url, most))
            return
        self._egress.download(
            url, path, most_bytes=most, transfer=transfer, user_agent=self._config.user_agent
        )

    def _uploads(self, folder: Path) -> Uploads:
        return open_uploads(folder, self._config.database)


class InputFiles:
    """The files of one prediction, on threads of its own: slow ones delay no other prediction."""

    def __init__(self, downloads: Downloads) -> None:
        self._downloads = downloads
        self._pool: ThreadPoolExecutor | None = None
        self._fetches: list[Future[None]] = []
        self._transfers: list[Transfer] = []
        self._paths: list[Path] = []
        self._opened: list[BinaryIO] = []

    def start(self, urls: Sequence[str]) -> "list[Future[None]]":
        """Begin to fetch; `paths` has the files once all are done."""
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="download")
        for url in urls:
            path = self._downloads.new_file(self._downloads.file_name(url))
            transfer = self._downloads.new_transfer()
            self._paths.append(path)
            self._transfers.append(transfer)
            self._fetches.append(self._pool.submit(self._downloads.fetch, url, path, transfer))
        return self._fetches

    def wait(self, stop: Callable[[], bool]) -> None:
        """Wait for the files.

        Args:
            stop: called periodically; true ends the wait.

        Raises:
            InputError: a file cannot be fetched.
        """
        waiting = set(self._fetches)
        while waiting and not stop():
            done, waiting = wait(waiting, timeout=_POLL)
            for fetch in done:
                fetch.result()

    @property
    def paths(self) -> list[Path]:
        """The paths of the files, one for each URL, in the same order."""
        return self._paths

    def open(self, path: Path) -> BinaryIO:
        """Open a file, to be closed with the others."""
        file = path.open("rb")
        self._opened.append(file)
        return file

    def close(self) -> None:
        """Remove the files, and abort running downloads."""
        for file in self._opened:
            file.close()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        for transfer in self._transfers:
            transfer.abort()
        for path, fetch in zip(self._paths, self._fetches, strict=False):
            fetch.add_done_callback(functools.partial(_remove, path))


def _copy_upload(uploads: Uploads, owner: str, identifier: str, path: Path) -> None:
    upload = uploads.get(owner, identifier)
    unknown = (
        f"there is no file {identifier} of yours: it has expired, or was never here. Upload it "
        "again, and send the new URL."
    )
    if upload is None:
        raise InputError(unknown)
    try:
        with uploads.open(upload) as source, path.open("wb") as target:
            shutil.copyfileobj(source, target)
    except FileNotFoundError as error:  # it has just expired
        raise InputError(unknown) from error


def _remove(path: Path, _done: "Future[None]") -> None:
    """Remove a file, which the user's code may have moved."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


def _url_of(name: str) -> str:
    return f"file:///{urllib.parse.quote(name, safe='')}"


def file_name(url: str) -> str:
    """Return the end of a file's name: the URL's last part, or `file` and an extension."""
    if url.startswith("data:"):
        kind = url[len("data:") : _MOST_HEAD].partition(",")[0].partition(";")[0]
        return f"file{mimetypes.guess_extension(kind) or ''}" if kind else "file.txt"
    try:
        name = os.path.basename(urllib.parse.urlparse(url).path)
    except ValueError as error:  # brackets without an address
        raise InputError(f"{url[:80]!r} is no URL: {error}. Correct it.") from error
    name = urllib.parse.unquote_plus(name).replace("\0", "_").replace("/", "_")
    if len(name.encode()) <= _MOST_NAME_BYTES:
        return name
    stem, extension = os.path.splitext(name)
    room = max(0, _MOST_NAME_BYTES - len(extension.encode()) - 1)
    return f"{stem.encode()[:room].decode(errors='ignore')}~{extension}"[:_MOST_NAME_BYTES]
