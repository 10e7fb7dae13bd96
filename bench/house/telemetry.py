"""Records names and labels of metrics, keys of log lines, webhooks, and the files left behind."""

import contextlib
import json
import re
import sqlite3
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from bench.house.files import names_in
from bench.house.normal import Json, distinct, normal, shape, to_json
from bench.house.receiver import Came, Receiver
from bench.house.scenes import SECRET, crash, play, reject, scene
from bench.house.served import Served, served
from bench.house.tree import Tree, fill

_LABEL = re.compile(r'(\w+)="([^"]*)"')


def telemetry(tree: Tree) -> dict[str, str]:
    """Make `metrics.txt`, `log_keys.json`, `webhooks.json`, `schema.sql` and `files.work.txt`."""
    with scene(tree, MAX_QUEUE="1") as (server, taken, folder):
        play(server, taken)
        reject(server)
        server.run_to_end("/predictions", {"input": {"action": "large"}})
        crash(server)
        numbers = metric_names(server)
        schema = database_schema(folder / ".data")
        server.stop()
        logs = server.text()
        left = names_in(folder / ".data")
    return {
        "metrics.txt": numbers,
        "log_keys.json": to_json(log_keys([logs, *_other_logs(tree)])),
        "webhooks.json": to_json(_webhooks(taken)),
        "schema.sql": schema,
        "files.work.txt": left,
    }


def _other_logs(tree: Tree) -> Iterable[str]:
    with tempfile.TemporaryDirectory() as name:
        folder = fill(Path(name), "broken.py")
        stub = {"COG_PREDICT_TYPE_STUB": "broken.py:Predictor"}
        with served(tree, folder, stub) as server:
            server.stop()
            yield server.text()


def metric_names(server: Served) -> str:
    """Return help and type of each metric, and each series without its value."""
    lines = server.ask("GET", "/metrics").body.decode().splitlines()
    comments = [line for line in lines if line.startswith("#")]
    series = {_series(line) for line in lines if not line.startswith("#")}
    return "\n".join([*sorted(comments), *sorted(series)]) + "\n"


def _series(line: str) -> str:
    name, brace, rest = line.rpartition(" ")[0].partition("{")
    labels = [(k, "…" if k == "le" else normal(v)) for k, v in _LABEL.findall(rest)]
    return name + (brace + ",".join(f'{k}="{v}"' for k, v in sorted(labels)) + "}" if brace else "")


def log_keys(texts: Iterable[str]) -> Json:
    """Return the keys of the JSON lines in some logs, and their levels, by event."""
    found: dict[str, set[str]] = defaultdict(set)
    for text in texts:
        for line in (line for line in text.splitlines() if line.startswith("{")):
            entry: dict[str, Any] = json.loads(line)
            found[normal(str(entry.get("event")))].add(" ".join([entry["level"], *sorted(entry)]))
    return {event: sorted(keys) for event, keys in found.items()}


def _webhooks(taken: Receiver) -> Json:
    paths = ("/tell", "/fail", "/cancel", "/train", "/gone")
    return {path: distinct([_described(each, taken) for each in taken.at(path)]) for path in paths}


def _described(came: Came, taken: Receiver) -> Json:
    named = {k: v for k, v in came.headers.items() if k in ("user-agent", "content-type")}
    return {
        "headers": " ".join(sorted(came.headers)),
        "values": named,
        "is signed": _is_signed(came),
        "body": shape(came.json, {taken.url: "<receiver>"}),
    }


def _is_signed(came: Came) -> bool:
    try:
        Webhook(SECRET).verify(came.body, came.headers)
    except WebhookVerificationError:
        return False
    return True


def database_schema(data: Path) -> str:
    """Return the statements that made the SQLite file below a folder, and its version."""
    file = next(path for path in sorted(data.rglob("*")) if _is_database(path))
    with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        rows = connection.execute(
            "select type, name, sql from sqlite_master where sql not null order by type, name"
        )
        statements = [f"-- {kind} {name}\n{sql};\n" for kind, name, sql in rows]
        version = connection.execute("pragma user_version").fetchone()[0]
        mode = connection.execute("pragma journal_mode").fetchone()[0]
    return "\n".join([f"-- user_version {version}, journal_mode {mode}\n", *statements])


def _is_database(path: Path) -> bool:
    return path.is_file() and path.open("rb").read(15) == b"SQLite format 3"
