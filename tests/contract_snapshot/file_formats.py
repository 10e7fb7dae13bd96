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
    for name, tensor in header.items():
        shown = _TABLE.sub(r"\1:PARAMETER", _INDEX.sub("optimizer:N/", nameless(name)))
        yield f"{title} tensor {shown} {tensor['dtype']} of rank {len(tensor['shape'])}"


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
    """Yield columns, indexes and the migration's head of a database of records."""
    with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
        names = database.execute("select name from sqlite_master where type = 'table'").fetchall()
        for (name,) in names:
            columns = database.execute(f"pragma table_info({name})")
            yield f"table {name}: {', '.join(' '.join(_column(*each[1:])) for each in columns)}"
            wanted = (
                "select sql from sqlite_master where type = 'index' and tbl_name = ? and sql > ''"
            )
            indexes = sorted(text for (text,) in database.execute(wanted, (name,)))
            yield from [f"indexes of {name}: {'; '.join(indexes)}"] * bool(indexes)
        (head,) = database.execute("select version_num from alembic_version").fetchone()
        yield f"migrations head {head}"


def _column(name: str, kind: str, needed: int, default: object, key: int) -> Iterator[str]:
    yield from (name, kind)
    yield from ["NOT NULL"] * bool(needed)
    yield from [f"DEFAULT {default}"] * (default is not None)
    yield from [f"KEY {key}"] * bool(key)


def migrations() -> Iterator[str]:
    """Yield each migration with the one before it."""
    for path in Path(cog_adapt.__file__).parent.rglob("migrations/versions/*.py"):
        values = dict(_REVISION.findall(path.read_text("utf-8")))
        if values:
            yield f"migration {values['revision']} after {values['down_revision']}"
