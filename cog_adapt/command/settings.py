"""Writes the settings as a page: a row for each variable, made from the classes that read them.

python -m cog_adapt.command.settings > docs/settings.md
"""

import dataclasses
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import NoneType
from typing import Literal, NamedTuple, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic.fields import FieldInfo

from cog_adapt.server.settings import Settings

_HEAD = """\
# Settings

Made by `python -m cog_adapt.command.settings > docs/settings.md`; a test fails where it is out of
date. A setting is a variable of the environment, read once at the start; an empty one counts as
unset, and a wrong value is refused by name. `environment` in `cog.yaml` sets what the environment
does not. Traces have OpenTelemetry's own variables (`OTEL_*`), and Cog's (`COG_TRACE_*`).
"""
_COLUMNS = "| variable | default | allowed | meaning |\n|---|---|---|---|\n"
_ATTRIBUTE = re.compile(r"^ {8}(\w+): (.*?)(?=^ {8}\w|\Z)", re.DOTALL | re.MULTILINE)
_WORDS = {int: "whole number", float: "number", Path: "path", str: "text", bool: "0, 1"}


class Row(NamedTuple):
    """One variable."""

    name: str
    default: str
    allowed: str
    meaning: str


def server_rows() -> Iterator[Row]:
    """Yield what the server reads."""
    for name, field in Settings.model_fields.items():
        yield Row(name.upper(), _shown(field.default), _allowed(field), field.description or "")


def model_rows() -> Iterator[Row]:
    """Yield what the model's side reads."""
    from cog_adapt.runner.config import RunnerSettings

    meanings = dict(_ATTRIBUTE.findall(RunnerSettings.__doc__ or ""))
    for field in dataclasses.fields(RunnerSettings):
        meaning = " ".join(meanings[field.name].split()).removesuffix(".")
        allowed = _allowed_by_runner(field.name, field.default)
        yield Row(field.name.upper(), _shown(field.default), allowed, meaning)
    models = "folder of `task.py`'s encoder, folder or id of a `CausalLM`; unset: the packaged one"
    yield Row("MODEL", "–", "path or id", models)
    yield Row("COG_WEIGHTS", "–", "path or URL", "an adapter that `predict.py` starts with")


def page() -> str:
    """Return the whole text."""
    tables = (("The server", server_rows()), ("The model", model_rows()))
    return _HEAD + "".join(f"\n## {title}\n\n{_table(rows)}" for title, rows in tables)


def _table(rows: Iterator[Row]) -> str:
    return _COLUMNS + "".join(
        f"| `{row.name}` | {row.default} | {row.allowed} | {row.meaning} |\n" for row in rows
    )


def _shown(default: object) -> str:
    if default is None or default in ((), ""):
        return "–"
    return f"`{int(default) if isinstance(default, bool) else default}`"


def _allowed(field: FieldInfo) -> str:
    kinds = [kind for kind in get_args(field.annotation) if kind is not NoneType]
    if get_origin(field.annotation) is Literal:
        return ", ".join(f"`{value}`" for value in kinds)
    if get_origin(field.annotation) is tuple:
        return "names with commas between"
    kind = kinds[0] if kinds else field.annotation
    words = _WORDS[kind]  # type: ignore[index] # a kind without a word is a fault of this table
    for bound in field.metadata:
        match bound:
            case Ge(ge=least):
                words += f" from {least}"
            case Gt(gt=below):
                words += f" above {below}"
            case Le(le=most):
                words += f" to {most}"
    return words


def _allowed_by_runner(name: str, default: object) -> str:
    """Return what the runner's own refusal of a wrong value names."""
    from cog_adapt.runner.config import RunnerSettings
    from cog_adapt.runner.errors import ConfigError

    if isinstance(default, Path):
        return _WORDS[Path]
    wrong = -1 if isinstance(default, int) else "?"
    try:
        RunnerSettings(**{name: wrong})  # type: ignore[arg-type]
    except ConfigError as error:
        return str(error).partition("allowed: ")[2].partition(". ")[0].removeprefix("a ")
    raise AssertionError(f"{name} may be anything: {wrong!r} was not refused")


if __name__ == "__main__":
    sys.stdout.write(page())
