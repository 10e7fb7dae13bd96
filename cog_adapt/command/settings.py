"""Writes the settings as a page: a row for each variable, made from the classes that read them.

python -m cog_adapt.command.settings > docs/settings.md
"""

import sys
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from pydantic_settings import BaseSettings

from cog_adapt.runner.config import RunnerSettings
from cog_adapt.server.settings import Settings
from cog_adapt.shared_settings import SharedSettings, allowed_by

_HEAD = """\
# Settings

Made by `python -m cog_adapt.command.settings > docs/settings.md`; a test fails where it is out of
date. A setting is a variable of the environment, read once at the start; an empty one counts as
unset, and a wrong value is refused by name. `environment` in `cog.yaml` sets what the environment
does not. Traces have OpenTelemetry's own variables (`OTEL_*`), and Cog's (`COG_TRACE_*`).
"""
_BUDGETS = """\
How much of a machine this installation may use. The server and the model read all three settings,
and every budget in bytes follows from them. With `MEMORY_SHARE=0.5` each budget in memory is half
as large. With `DISK_BYTES` the budgets on disk are those of a disk of so many bytes, all free.
"""
_LIMITS = """\
A request that is larger or slower is refused ([operations.md](operations.md) has the answers).
"""
_EXPERTS = """\
The defaults suit most installations. A budget that is set here no longer follows from the three
settings of bytes. *Memory* is `MEMORY_SHARE` of the machine's, *device memory* of the device's.
"""
_COLUMNS = "| variable | default | allowed | meaning |\n|---|---|---|---|\n"
LIMITS = (
    "MAX_BODY_BYTES",
    "MAX_FILE_BYTES",
    "MAX_STRING_LENGTH",
    "BODY_SECONDS",
    "DOWNLOAD_SECONDS",
)
USUAL = (
    *("PORT", "DATA_DIR", "DATABASE_URL", "API_KEYS_FILE", "RATE_LIMIT", "CORS_ORIGINS"),
    *("EGRESS_ALLOW", "WEBHOOK_SECRET", "COG_MAX_CONCURRENCY", "MODEL_PROCESSES", "MAX_QUEUE"),
    *("COG_SETUP_TIMEOUT", "DRAIN_SECONDS", "RETENTION_DAYS", "LOG_FORMAT", "COG_LOG_LEVEL"),
    *("MODEL", "COG_WEIGHTS", "DEVICE", "PRECISION", "BATCH_SIZE", "WEIGHTS_DIR"),
    *("ADAPTER_DAYS", "ADAPTER_STORE", "RECEIPT_KEY", "SELF_TEST"),
)


class SettingRow(NamedTuple):
    """One variable."""

    name: str
    default: str
    allowed: str
    meaning: str


def shared_rows() -> Iterator[SettingRow]:
    """Yield the settings of both sides."""
    yield from _rows(SharedSettings, ())


def server_rows() -> Iterator[SettingRow]:
    """Yield the settings of the server alone."""
    yield from _rows(Settings, SharedSettings.model_fields)


def model_rows() -> Iterator[SettingRow]:
    """Yield the settings of the model's side alone."""
    yield from _rows(RunnerSettings, SharedSettings.model_fields)
    models = "folder of `task.py`'s encoder, folder or id of a `CausalLM`; unset: the packaged one"
    yield SettingRow(name="MODEL", default="–", allowed="path or id", meaning=models)
    yield SettingRow(
        name="COG_WEIGHTS",
        default="–",
        allowed="path or URL",
        meaning="an adapter that `predict.py` starts with",
    )


def page() -> str:
    """Return the whole text; the settings that most operators need come first."""
    server, model = [*server_rows()], [*model_rows()]
    groups = (
        ("Budgets of bytes", _BUDGETS, [*shared_rows()]),
        ("Limits of one request", _LIMITS, _chosen(server, LIMITS)),
        ("What most set: the server", "", _chosen(server, USUAL)),
        ("What most set: the model", "", _chosen(model, USUAL)),
        ("For experts: the server", _EXPERTS, _left(server)),
        ("For experts: the model", "", _left(model)),
    )
    return _HEAD + "".join(f"\n## {title}\n\n{_table(text, rows)}" for title, text, rows in groups)


def _rows(settings: type[BaseSettings], without: Collection[str]) -> Iterator[SettingRow]:
    for name, field in settings.model_fields.items():
        if name not in without:
            meaning = field.description or ""
            yield SettingRow(
                name=name.upper(),
                default=_shown(field.default),
                allowed=allowed_by(field),
                meaning=meaning,
            )


def _chosen(rows: Iterable[SettingRow], names: Iterable[str]) -> list[SettingRow]:
    """Return the rows of these names, in the order of the names."""
    by_name = {row.name: row for row in rows}
    return [by_name[name] for name in names if name in by_name]


def _left(rows: Iterable[SettingRow]) -> list[SettingRow]:
    return [row for row in rows if row.name not in {*LIMITS, *USUAL}]


def _table(text: str, rows: Iterable[SettingRow]) -> str:
    lines = [f"| `{row.name}` | {row.default} | {row.allowed} | {row.meaning} |\n" for row in rows]
    return "".join((text and f"{text}\n", _COLUMNS, *lines))


def _shown(default: object) -> str:
    if default is None or default in ((), ""):
        return "–"
    return f"`{int(default) if isinstance(default, bool) else default}`"


if __name__ == "__main__":
    sys.stdout.write(page())
