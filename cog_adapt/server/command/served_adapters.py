"""The adapters of a server, for the command line."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote, urlencode

from cog_adapt.adapter_metadata import MetadataJson
from cog_adapt.server.command.adapter_source import write_portions
from cog_adapt.server.command.client import Client, content, refusal

_PAGE = 1000
_SUCCEEDED, _CREATED = 200, 201


class RemoteAdapters:
    """The adapters that a server's key may use."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def all(
        self, owner: str | None, name: str | None, label: str | None = None
    ) -> Iterator[MetadataJson]:
        """Get all pages."""
        filters = {"limit": str(_PAGE), "owner": owner, "name": name, "label": label}
        cursor: str | None = ""
        while cursor is not None:
            query = filters | {"cursor": cursor or None}
            page = content(self._client.request("GET", _path("", query)))
            yield from page["results"]
            cursor = page["next"]

    def show(self, reference: str, owner: str | None) -> MetadataJson:
        """Get the metadata of an adapter."""
        return content(self._client.request("GET", _path(reference, {"owner": owner})))

    def get(self, reference: str, owner: str | None, form: str, path: Path) -> Path:
        """Download an adapter, whole or not at all."""
        at = _path(reference, {"owner": owner, "format": form}, "/download")
        with self._client.stream("GET", at) as response:
            if response.status_code != _SUCCEEDED:
                response.read()
                raise refusal(response)
            offered = response.headers["content-disposition"].partition('filename="')[2][:-1]
            return write_portions(path, offered, response.iter_bytes())

    def put(self, path: Path) -> MetadataJson:
        """Upload an adapter."""
        response = self._client.send_file("/adapters", path)
        if response.status_code != _CREATED:
            raise refusal(response)
        made: MetadataJson = response.json()
        return made

    def change(
        self, reference: str, owner: str | None, changes: Mapping[str, object]
    ) -> MetadataJson:
        """Change an adapter's metadata."""
        at = _path(reference, {"owner": owner})
        return content(self._client.request("PATCH", at, dict(changes)))

    def give(self, reference: str, owner: str | None, receiver: str) -> MetadataJson:
        """Give an adapter to another owner, by a key with the scope `admin`."""
        return self.change(reference, owner, {"owner": receiver})

    def remove(self, reference: str, owner: str | None) -> MetadataJson:
        """Remove an adapter."""
        return content(self._client.request("DELETE", _path(reference, {"owner": owner})))


def _path(reference: str, query: Mapping[str, str | None], end: str = "") -> str:
    at = f"/adapters/{quote(reference, safe='')}{end}" if reference else "/adapters"
    wanted = urlencode({key: value for key, value in query.items() if value is not None})
    return f"{at}?{wanted}" if wanted else at
