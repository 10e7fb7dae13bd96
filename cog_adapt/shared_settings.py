"""The settings that the server and the model's side share, and the words for a field's values.

Every budget of bytes is a share of these three settings, unless it has a setting of its own. This
module knows no budget.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import NoneType
from typing import Annotated, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic import AfterValidator, BeforeValidator, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

_WORDS = {int: "whole number", float: "number", Path: "path", str: "text", bool: "0 or 1"}
_PASSWORD = re.compile(r"//[^/?#\s]*@")
_SHOWN = 200
_NUMBER = re.compile(r"\s*[-+]?\d{1,30}\s*")


class SharedSettings(BaseSettings):
    """The three settings of bytes, which both sides read from the same environment.

    A value is passed, or is the default; each side adds its other sources.
    """

    model_config = SettingsConfigDict(
        frozen=True, env_ignore_empty=True, case_sensitive=False, allow_inf_nan=False
    )

    memory_share: float = Field(
        default=1,
        gt=0,
        le=1,
        description="share of the machine's memory (of the cgroup's, and of the device's) that "
        "budgets are parts of",
    )
    disk_bytes: int | None = Field(
        default=None,
        ge=2**20,
        description="bytes of disk that budgets are parts of: a half for records, a quarter for "
        "adapters, a tenth each for uploads and for states of killed trainings; unset: the disk's "
        "own",
    )
    owner_share: float = Field(
        default=0.5,
        gt=0,
        le=1,
        description="share of each budget that one owner may use; adaptations under way take turns "
        "instead",
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take only passed values, since programs and tests make settings too."""
        return (init_settings,)


@dataclass(frozen=True)
class Allowed:
    """The words for a field's allowed values, as an annotation for types that do not show them."""

    words: str


def _read_whole_number(value: object) -> object:
    is_number = isinstance(value, str) and _NUMBER.fullmatch(value)
    return int(str(value)) if is_number else value


def _read_flag(value: object) -> object:
    return {"0": False, "1": True}.get(str(value), value)


def _check_file(path: str) -> str:
    if path and not Path(path).is_file():
        raise ValueError("no such file")
    return path


WholeNumber = Annotated[int, Field(strict=True), BeforeValidator(_read_whole_number)]
"""A number written in digits alone: `1e3`, `1.0` and `1_000` are refused."""

Flag = Annotated[bool, Field(strict=True), BeforeValidator(_read_flag)]
"""On or off; `yes` and `true` are refused."""

ExistingFile = Annotated[str, AfterValidator(_check_file)]
"""The path of an existing file; empty: none."""


def share_of(whole: int, share: float) -> int:
    """Return a share of so many bytes, rounded down; the share is taken by its decimals."""
    return int(whole * Fraction(str(share)))


def allowed_by(field: FieldInfo) -> str:
    """Return the words for a field's allowed values, from its type and its bounds.

    Raises:
        KeyError: no words are known for the field's type.
    """
    for item in field.metadata:
        if isinstance(item, Allowed):
            return item.words
    kinds = [kind for kind in get_args(field.annotation) if kind is not NoneType]
    if get_origin(field.annotation) is Literal:
        return f"{', '.join(kinds[:-1])} or {kinds[-1]}"
    if get_origin(field.annotation) is tuple:
        return "names with commas between"
    kind = kinds[0] if kinds else field.annotation
    return _WORDS[kind] + "".join(map(_bound, field.metadata))  # type: ignore[index] # else a fault


def _bound(item: object) -> str:
    match item:
        case Ge(ge=least):
            return f" from {least}"
        case Gt(gt=below):
            return f" above {below}"
        case Le(le=most):
            return f" to {most}"
    return ""


def refusals(fields: Mapping[str, FieldInfo], error: ValidationError) -> list[str]:
    """Return a sentence for each wrong value: setting, value, allowed values, remedy.

    Args:
        fields: of the class with the wrong values, by name.
        error: raised by that class.
    """
    said = (_refusal(fields, str(each["loc"][0]), each["input"]) for each in error.errors())
    return [*dict.fromkeys(said)]  # a value that is of none of several types has an error for each


def _refusal(fields: Mapping[str, FieldInfo], name: str, value: object) -> str:
    if name not in fields:
        return f"{name.upper()} is no setting; docs/settings.md lists those that are. Remove it."
    allowed = allowed_by(fields[name])
    shown = _PASSWORD.sub("//…@", repr(value))
    if len(shown) > _SHOWN:
        shown = f"{shown[:_SHOWN]}… of {len(shown):,} characters"
    return f"{name.upper()} is {shown}; allowed: {allowed}. Set it in the environment."
