"""The adapters that a server's key may use; docs/adapters.md has their metadata."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Literal
from urllib.parse import quote, urlencode

import httpx2

from cog_adapt.adapter_metadata import MetadataJson
from cog_adapt.client.connection import Call, Connection
from cog_adapt.client.errors import error_of
from cog_adapt.client.files import open_file, target_of, writing
from cog_adapt.client.transport import Blocking, blocking, iterating

Format = Literal["safetensors", "peft", "diffusers", "kohya", "receipt"]
_PAGE = "1000"
_SLOW = httpx2.Timeout(30.0, read=300.0)  # s; the server may write the file first
_BINARY = {"Content-Type": "application/octet-stream"}


class AsyncAdapters:
    """The adapters of a server. An adapter is named by its id, its name, or NAME@vN.

    `owner` chooses among adapters of several owners. Every method raises `ClientError`.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(
        self, *, name: str | None = None, label: str | None = None, owner: str | None = None
    ) -> AsyncGenerator[MetadataJson]:
        """Yield metadata, newest first; of a name, with a label, or of one owner, if given."""
        filters = {"limit": _PAGE, "owner": owner, "name": name, "label": label}
        cursor: str | None = ""
        while cursor is not None:
            query = filters | {"cursor": cursor or None}
            page = await self._connection.json(Call("GET", _path("", query)))
            for each in page["results"]:
                yield each
            cursor = page["next"]

    async def get(self, reference: str, *, owner: str | None = None) -> MetadataJson:
        """Return an adapter's metadata."""
        return await self._connection.json(Call("GET", _path(reference, {"owner": owner})))

    async def change(
        self, reference: str, changes: Mapping[str, object], *, owner: str | None = None
    ) -> MetadataJson:
        """Change `name`, `notes`, `expires_at`, `pinned` or `shared`; return all metadata."""
        content = json.dumps(dict(changes)).encode()
        path = _path(reference, {"owner": owner})
        return await self._connection.json(Call("PATCH", path, content, inputs=changes))

    async def name(self, reference: str, name: str, *, owner: str | None = None) -> MetadataJson:
        """Name an adapter; a name used before makes its next version."""
        return await self.change(reference, {"name": name}, owner=owner)

    async def share(
        self, reference: str, owners: Sequence[str], *, owner: str | None = None
    ) -> MetadataJson:
        """Share an adapter with these owners alone; `["*"]` means all, `[]` none."""
        return await self.change(reference, {"shared": [*owners]}, owner=owner)

    async def give(
        self, reference: str, receiver: str, *, owner: str | None = None
    ) -> MetadataJson:
        """Give an adapter to another owner, by a key with the scope `admin`."""
        return await self.change(reference, {"owner": receiver}, owner=owner)

    async def download(
        self,
        reference: str,
        path: Path | str,
        *,
        format: Format = "safetensors",
        owner: str | None = None,
    ) -> Path:
        """Write an adapter to a file or into a folder, whole or not at all; return the file."""
        at = _path(reference, {"owner": owner, "format": format}, "/download")
        async with self._connection.answer(Call("GET", at, timeout=_SLOW)) as response:
            if not response.is_success:
                await self._connection.transport.read(response)
                raise error_of(response, {})
            return await self._written(response, Path(path))

    async def _written(self, response: httpx2.Response, path: Path) -> Path:
        offered = response.headers["content-disposition"].partition('filename="')[2][:-1]
        target = target_of(path, offered)
        with writing(target) as file:
            async for piece in self._connection.transport.pieces(response):
                await self._connection.transport.call(file.write, piece)
        return target

    async def upload(self, path: Path | str) -> MetadataJson:
        """Store the adapter of a file, in either format; return its metadata."""
        transport = self._connection.transport
        with open_file(Path(path), "path") as file:
            sent = transport.sent(file)
            call = Call("POST", "/adapters", sent, headers=_BINARY, timeout=_SLOW)
            return await self._connection.json(call)

    async def remove(self, reference: str, *, owner: str | None = None) -> MetadataJson:
        """Remove an adapter; return the ids of adapters made from it, as `children`."""
        return await self._connection.json(Call("DELETE", _path(reference, {"owner": owner})))


class Adapters(Blocking[AsyncAdapters]):
    """The adapters of a server, as `AsyncAdapters` has them, for callers that block."""

    list = iterating(AsyncAdapters.list)
    get = blocking(AsyncAdapters.get)
    change = blocking(AsyncAdapters.change)
    name = blocking(AsyncAdapters.name)
    share = blocking(AsyncAdapters.share)
    give = blocking(AsyncAdapters.give)
    download = blocking(AsyncAdapters.download)
    upload = blocking(AsyncAdapters.upload)
    remove = blocking(AsyncAdapters.remove)


def _path(reference: str, query: Mapping[str, str | None], end: str = "") -> str:
    at = f"/adapters/{quote(reference, safe='')}{end}" if reference else "/adapters"
    wanted = urlencode({key: value for key, value in query.items() if value is not None})
    return f"{at}?{wanted}" if wanted else at
