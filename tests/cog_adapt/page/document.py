"""Writes the server's OpenAPI document for the page, whose types are made from it.

`python -m tests.cog_adapt.page.document` writes `page/src/api/openapi.json`; `make page-types`
makes the types too. What a predictor says of itself is not in it: the page asks for that.
"""

import json
from pathlib import Path
from typing import Any

from cog_adapt.server.api.openapi import whole_document
from cog_adapt.server.app import create_app
from cog_adapt.server.schema.openapi import openapi_schema
from cog_adapt.server.settings import Settings

PAGE = Path(__file__).parents[3] / "page"
DOCUMENT = PAGE / "src" / "api" / "openapi.json"


def run(text: str) -> str:
    """Stand for any predictor."""
    return text


def document() -> dict[str, Any]:
    """The document of a server with the smallest predictor."""
    whole: dict[str, Any] = _without_titles(
        whole_document(create_app(Settings()), openapi_schema(run))
    )
    return whole


def _without_titles(part: Any) -> Any:
    """Leave out titles of answers: FastAPI makes them of GET or HEAD, by chance."""
    if isinstance(part, list):
        return [_without_titles(each) for each in part]
    if not isinstance(part, dict):
        return part
    return {
        name: _without_titles(value)
        for name, value in part.items()
        if not (name == "title" and str(value).startswith("Response "))
    }


def text() -> str:
    """The document as it is committed."""
    return f"{json.dumps(document(), indent=1, sort_keys=True)}\n"


if __name__ == "__main__":
    DOCUMENT.write_text(text())
