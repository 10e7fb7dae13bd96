"""Large files of inputs, which are uploaded before their run: a body holds small ones alone."""

import hashlib
import mimetypes
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO

import httpx2

from cog_adapt.client.connection import Call, Connection
from cog_adapt.client.errors import NotFound
from cog_adapt.client.files import Place, large_files, open_file
from cog_adapt.client.run import Kind

_PATH = "/v1/files"
_SCHEMAS = {"predict": "Input", "train": "TrainingInput"}
_SLOW = httpx2.Timeout(30.0, read=300.0)  # s; the server may write the file first
_LEAST_LIFE = timedelta(minutes=10)  # a run may wait before it reads its files


class Uploads:
    """Uploads to a server.

    A file that is there already is not sent again, so a repeated run has equal inputs.

    Args:
        connection: to the server.
        above: bytes of a file above which it is uploaded.
    """

    def __init__(self, connection: Connection, above: int) -> None:
        self._connection = connection
        self._above = above

    async def urls(self, kind: Kind, inputs: Mapping[str, Any]) -> dict[Place, str]:
        """Upload the large files of inputs that take files; return their URLs, by place.

        A server without uploads, such as Cog's own, gets all files in the body.

        Raises:
            ClientError: a file is refused, or the server cannot be reached.
        """
        large = await self._connection.transport.call(large_files, inputs, self._above)
        names = await self._inputs_of_files(kind) if large else ()
        places = {place: path for place, path in large.items() if place[0] in names}
        if not places:
            return {}
        try:
            known = await self._known()
        except NotFound:
            return {}
        return {place: await self._url(path, known) for place, path in places.items()}

    async def _inputs_of_files(self, kind: Kind) -> list[str]:
        document = await self._connection.json(Call("GET", "/openapi.json"))
        schema = document.get("components", {}).get("schemas", {}).get(_SCHEMAS[kind], {})
        return [name for name, each in schema.get("properties", {}).items() if _takes_files(each)]

    async def _known(self) -> dict[str, str]:
        """Return the URLs of the caller's files on the server, by digest."""
        page = await self._connection.json(Call("GET", _PATH))
        late = datetime.now(UTC) + _LEAST_LIFE
        living = (each for each in page["results"] if _time(each["expires_at"]) > late)
        return {each["checksums"]["sha256"]: each["urls"]["get"] for each in living}

    async def _url(self, path: Path, known: dict[str, str]) -> str:
        transport = self._connection.transport
        with open_file(path, "path") as file:
            digest = await transport.call(_digest, file)
            if digest not in known:
                kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
                part = {"content": (path.name, file, kind)}
                call = Call("POST", _PATH, files=part, headers={}, timeout=_SLOW)
                known[digest] = (await self._connection.repeated(call))["urls"]["get"]
        return known[digest]


def _digest(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while piece := file.read(2**20):
        digest.update(piece)
    return digest.hexdigest()


def _takes_files(schema: object) -> bool:
    """Return whether a schema allows a URI, itself or in its parts."""
    if isinstance(schema, Mapping):
        return schema.get("format") == "uri" or any(map(_takes_files, schema.values()))
    return isinstance(schema, list) and any(map(_takes_files, schema))


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
