"""The adapter operations of the command line, for a folder or a server, and their output."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from cog_adapt.adapter_metadata import MetadataJson
from cog_adapt.server.errors import StorageError

_LINE = "{id:<16}  {name:<20}  {owner:<12}  {method:<10}  {examples:>8}  {hits:>6}  {created:<19}"


class AdapterSource(Protocol):
    """A source of adapters. An adapter is named by its id, its name, or NAME@vN, for any owner.

    Every method raises `InputError`, `UnavailableError` or `StorageError` of the server, or an
    error of the runner.
    """

    def all(
        self, owner: str | None, name: str | None, label: str | None = None
    ) -> Iterator[MetadataJson]:
        """Yield metadata, newest first; of one owner, of a name, or with a label, if given."""

    def show(self, reference: str, owner: str | None) -> MetadataJson:
        """Return an adapter's metadata."""

    def get(self, reference: str, owner: str | None, form: str, path: Path) -> Path:
        """Write an adapter to a file, or into a folder; return the file."""

    def put(self, path: Path) -> MetadataJson:
        """Store the adapter of a file; return its metadata."""

    def change(
        self, reference: str, owner: str | None, changes: Mapping[str, object]
    ) -> MetadataJson:
        """Change an adapter's metadata; return all of it."""

    def give(self, reference: str, owner: str | None, receiver: str) -> MetadataJson:
        """Give an adapter to another owner; return its new metadata."""

    def remove(self, reference: str, owner: str | None) -> MetadataJson:
        """Remove an adapter; return the ids of adapters made from it, as `children`."""


def write_portions(path: Path, offered: str, portions: Iterator[bytes]) -> Path:
    """Write a file, or into a folder under the offered name; whole or not at all.

    Raises:
        StorageError: it cannot be written.
    """
    target = path / Path(offered).name if path.is_dir() else path
    part = target.with_name(f"{target.name}.part")
    try:
        with part.open("wb") as file:
            file.writelines(portions)
        part.replace(target)
    except OSError as error:
        raise StorageError(f"{target} cannot be written: {error.strerror}.") from error
    finally:
        part.unlink(missing_ok=True)
    return target


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
