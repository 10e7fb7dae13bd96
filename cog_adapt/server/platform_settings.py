"""The settings of Replicate's API and of URLs, which the server's settings include."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from cog_adapt.shared_settings import Allowed, SharedSettings

_ADDRESS = re.compile(r"https?://[^\s/?#@]+(/[^\s?#]*)?")
_LONGEST = 2000


def _check_address(value: str | None) -> str | None:
    if value is not None and (len(value) > _LONGEST or not _ADDRESS.fullmatch(value)):
        raise ValueError("no such http(s) URL")
    return value


WebAddress = Annotated[
    str | None,
    AfterValidator(_check_address),
    Allowed(
        f"http(s)://HOST or http(s)://HOST/PATH, to {_LONGEST:,} characters, with no user, "
        "password, query or fragment"
    ),
]
"""The address of a server; None: unknown."""


class PlatformSettings(SharedSettings):
    """The settings of `/v1`, and this server's URLs."""

    upload_bytes: int | None = Field(
        default=None,
        ge=1,
        description="bytes of files that callers keep by POST /v1/files; unset: a tenth of "
        "DISK_BYTES, or of the free disk",
    )
    upload_hours: float = Field(
        default=1, gt=0, le=100_000, description="hours until such a file expires"
    )
    server_url: WebAddress = Field(
        default=None,
        description="`http(s)://…` at which other servers of the same database reach this one; "
        "unset: the address that it listens on, or this host's on the way to the database",
    )
    public_url: WebAddress = Field(
        default=None,
        description="`https://…` of the server in answers by /v1; unset: from the header `Host`",
    )
