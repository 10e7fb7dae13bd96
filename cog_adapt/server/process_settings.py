"""The setting of the processes that serve the model, which the server's settings include."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from cog_adapt.server.platform_settings import PlatformSettings
from cog_adapt.shared_settings import Allowed

MOST_PROCESSES = 64
_DIGITS = 30


def _read_processes(value: object) -> object:
    is_number = isinstance(value, str) and value.strip().isdecimal() and len(value) <= _DIGITS
    return int(str(value)) if is_number else value


Processes = Annotated[
    Literal["auto"] | Annotated[int, Field(strict=True, ge=1, le=MOST_PROCESSES)],
    BeforeValidator(_read_processes),
    Allowed(f"auto or a whole number from 1 to {MOST_PROCESSES}"),
]
"""How many processes serve the model; `auto`: one for each device."""


class ProcessSettings(PlatformSettings):
    """The setting of model processes."""

    model_processes: Processes = Field(
        default=1,
        description="processes that serve the model, each with a device of its own where there are "
        "enough; `auto`: one for each device",
    )
