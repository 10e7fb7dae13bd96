"""Serves the page that shows the API, and all of its files: it loads nothing from other hosts.

The files are Swagger UI's own, from the package fastapi-swagger; only its files are used.
"""

import base64
import hashlib
import re
from importlib.metadata import version
from importlib.resources import files

from fastapi import APIRouter
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from cog_adapt.server.api.page import SAFE

_FILES = files("fastapi_swagger.resources")
_VERSION = version("fastapi-swagger")
_TYPES = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "favicon-32x32.png": "image/png",
}
_KEPT = {
    **SAFE,
    "Cache-Control": "public, max-age=31536000, immutable",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
# Swagger UI sets styles on elements, and its style sheet contains pictures.
_POLICY = (
    "default-src 'none'; script-src 'self' {script}; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_INLINE = re.compile(rb"<script>(.*?)</script>", re.DOTALL)


router = APIRouter(tags=["server"])


@router.api_route(
    "/docs",
    name="docs",
    methods=["GET", "HEAD"],
    response_class=HTMLResponse,
)
async def page() -> Response:
    """Return the OpenAPI document as a page, to read and try."""
    answer = get_swagger_ui_html(
        openapi_url="openapi.json",  # relative, because the server may be behind a prefix
        title="Cog",
        swagger_js_url=_address("swagger-ui-bundle.js"),
        swagger_css_url=_address("swagger-ui.css"),
        swagger_favicon_url=_address("favicon-32x32.png"),
        # without this, Swagger UI sends the document to swagger.io
        swagger_ui_parameters={"validatorUrl": None},
    )
    script = " ".join(_digest(text) for text in _INLINE.findall(bytes(answer.body)))
    answer.headers.update({**SAFE, "Content-Security-Policy": _POLICY.format(script=script)})
    return answer


@router.api_route("/docs/{name}", methods=["GET", "HEAD"], include_in_schema=False)
async def part(name: str) -> Response:
    """Return a file of the page."""
    if name not in _TYPES:
        raise HTTPException(404)
    return Response(
        content=(_FILES / name).read_bytes(),
        status_code=200,
        headers=_KEPT,
        media_type=_TYPES[name],
    )


def _digest(script: bytes) -> str:
    """Return the policy source that allows only this inline script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script).digest()).decode()}'"


def _address(name: str) -> str:
    # browsers cache the file for a year, and another version has another URL
    return f"docs/{name}?v={_VERSION}"
