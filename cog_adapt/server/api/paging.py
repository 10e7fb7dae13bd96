"""The parameters of a page: its size, and its start."""

import re
from typing import Annotated, Final

from annotated_types import Interval
from fastapi import Query
from pydantic import BeforeValidator
from pydantic.json_schema import SkipJsonSchema

from cog_adapt.server.errors import InvalidRequest

MOST_A_PAGE: Final = 1000
# int() refuses longer numbers, which would be an internal error
NUMBER: Final = re.compile(r"[0-9]{1,15}")


def _read_limit(text: str) -> int:
    if not NUMBER.fullmatch(text) or not 1 <= int(text) <= MOST_A_PAGE:
        raise InvalidRequest(
            f"limit is {text[:20]!r}; allowed: 1 to {MOST_A_PAGE}.", ("query", "limit")
        )
    return int(text)


# The readers' errors pass through FastAPI, so answers to wrong values stay in Cog's form.
Limit = Annotated[
    int,
    Interval(ge=1, le=MOST_A_PAGE),
    BeforeValidator(_read_limit),
    Query(description="At most so many."),
]
Cursor = Annotated[str | SkipJsonSchema[None], Query(description="`next` of the page before.")]
