"""Formats of files: adapters, states of trainings, receipts, and the tables of records."""

import contextlib
import json
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cog_adapt
from tests.contract_snapshot.shapes import entries, nameless, shortened

_TABLE = re.compile(r"^(tensors|best):.*")
_INDEX = re.compile(r"^optimizer:\d+/")
_OF_SQLITE = (".db-shm", ".db-wal")
_REVISION = re.compile(r"^(revision|down_revision)[^=]*= (.*)$", re.MULTILINE)


def safetensors(title: str, content: bytes) -> Iterator[str]:
    """Yield metadata keys with their shape, and tensors with dtype and rank, of a file."""
    size = int.from_bytes(content[:8], "little")
    header: dict[str, Any] = json.loads(content[8 : 8 + size])
    for key, text in header.pop("__metadata__", {}).items():
        value = json.loads(text) if text.startswith("{") else text
        yield from (f"{title} metadata {key} {line}" for line in entries(value))
    forms: dict[str, set[str]] = {}
    for name, tensor in header.items():
        shown = _TABLE.sub(r"\1:PARAMETER", _INDEX.sub("optimizer:N/", nameless(name)))
        forms.setdefault(shown, set()).add(f"{tensor['dtype']} of rank {len(tensor['shape'])}")
    yield from (f"{title} tensor {shown} {', '.join(sorted(of))}" for shown, of in forms.items())


def files_below(folder: Path) -> Iterator[str]:
    """Yield the names of files, of JSON with the fields."""
    for path in filter(Path.is_file, folder.rglob("*")):
        name = nameless(str(path.relative_to(folder)))
        if name.endswith(_OF_SQLITE):
            continue
        is_json = path.suffix == ".json"
        fields = {*map(shortened, entries(json.loads(path.read_bytes())))} if is_json else set()
        yield f"file {name} {', '.join(sorted(fields))}".rstrip()


def tables(file: Path) -> Iterator[str]:
    """Yield the columns and indexes of each table of a database of records."""
    with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
        names = database.execute("select name from sqlite_master where type = 'table'").fetchall()
        for (name,) in names:
            columns = database.execute(f"pragma table_info({name})")
            described = ", ".join(" ".join(_column(*each[1:])) for each in columns)
            wanted = (
                "select sql from sqlite_master where type = 'index' and tbl_name = ? and sql > ''"
            )
            indexes = sorted(text for (text,) in database.execute(wanted, (name,)))
            yield "; ".join((f"table {name}: {described}", *indexes))


def _column(name: str, kind: str, needed: int, default: object, key: int) -> Iterator[str]:
    yield from (name, kind)
    yield from ["NOT NULL"] * bool(needed)
    yield from [f"DEFAULT {default}"] * (default is not None)
    yield from [f"KEY {key}"] * bool(key)


def migrations() -> Iterator[str]:
    """Yield the migrations, each after the one before it."""
    files = Path(cog_adapt.__file__).parent.rglob("migrations/versions/*.py")
    found = (dict(_REVISION.findall(path.read_text("utf-8"))) for path in files)
    yield "; ".join(
        sorted(
            f"migration {each['revision']} after {each['down_revision']}" for each in found if each
        )
    )
