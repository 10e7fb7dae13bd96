"""The adapter operations of the command line, for a folder or a server, and their output."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from cog_adapt.adapter_metadata import MetadataJson
from cog_adapt.client.adapters import Format

_LINE = "{id:<16}  {name:<20}  {owner:<12}  {method:<10}  {examples:>8}  {hits:>6}  {created:<19}"


class AdapterSource(Protocol):
    """A source of adapters: a folder, or a server by `cog_adapt.client.Adapters`.

    An adapter is named by its id, its name, or NAME@vN, for any owner. Every method raises
    `InputError`, `UnavailableError`, a `ClientError`, or an error of the runner.
    """

    def list(
        self, *, name: str | None = None, label: str | None = None, owner: str | None = None
    ) -> Iterator[MetadataJson]:
        """Yield metadata, newest first; of a name, with a label, or of one owner, if given."""

    def get(self, reference: str, *, owner: str | None = None) -> MetadataJson:
        """Return an adapter's metadata."""

    def download(
        self,
        reference: str,
        path: Path,
        *,
        format: Format = "safetensors",
        owner: str | None = None,
    ) -> Path:
        """Write an adapter to a file, or into a folder; return the file."""

    def upload(self, path: Path) -> MetadataJson:
        """Store the adapter of a file; return its metadata."""

    def change(
        self, reference: str, changes: Mapping[str, object], *, owner: str | None = None
    ) -> MetadataJson:
        """Change an adapter's metadata; return all of it."""

    def give(self, reference: str, receiver: str, *, owner: str | None = None) -> MetadataJson:
        """Give an adapter to another owner; return its new metadata."""

    def remove(self, reference: str, *, owner: str | None = None) -> MetadataJson:
        """Remove an adapter; return the ids of adapters made from it, as `children`."""


def as_lines(found: Iterable[MetadataJson]) -> Iterator[str]:
    """Yield a line for each adapter, after a line with the column names."""
    yield _LINE.format(
        id="ID",
        name="NAME",
        owner="OWNER",
        method="METHOD",
        examples="EXAMPLES",
        hits="HITS",
        created="CREATED",
    ).rstrip()
    for each in found:
        name = f"{each['name']}@v{each['version']}" if each.get("name") else "-"
        method = (each.get("recipe") or {}).get("method") or "-"
        yield _LINE.format(
            id=each["id"],
            name=name,
            owner=each["owner"] or "-",
            method=method,
            examples=_number(each.get("examples")),
            hits=_number(each.get("hits")),
            created=(each.get("created_at") or "-")[:19],
        ).rstrip()


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def as_json(value: object) -> str:
    """Return metadata as indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False)
