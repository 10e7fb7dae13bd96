"""The adapters that the predictor keeps: found, named, shared, moved, removed by their owners."""

import re
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal
from urllib.parse import quote, unquote

import msgspec
from fastapi import APIRouter, Depends, Path, Query
from pydantic import BeforeValidator
from pydantic.json_schema import SkipJsonSchema
from starlette.requests import Request
from starlette.responses import Response

from cog_adapt.server.adapter_messages import AdapterFormat
from cog_adapt.server.api.adapter_shapes import (
    CHANGES,
    FILE,
    NO_ADAPTER,
    UPLOAD,
    Adapter,
    AdapterPage,
    Removed,
    refusals,
)
from cog_adapt.server.api.body import read_object
from cog_adapt.server.api.dependencies import AdaptersDep, parts_of
from cog_adapt.server.api.file_response import FileResponse
from cog_adapt.server.api.owners import asker_of
from cog_adapt.server.api.paging import Cursor, Limit
from cog_adapt.server.api.responses import json_response
from cog_adapt.server.api.upload import Uploads, receive_file
from cog_adapt.server.errors import (
    Forbidden,
    InputError,
    InvalidPath,
    InvalidRequest,
    NotFound,
    TooLarge,
)
from cog_adapt.server.records.adapter_pages import AdapterQuery, Asker
from cog_adapt.server.service.adapters import Adapters, Metadata

_MOST_BYTES_OF_CHANGES = 2**16
_FORMATS: dict[str, tuple[str, str]] = {
    "safetensors": ("application/octet-stream", "safetensors"),
    "peft": ("application/zip", "zip"),
}
_OWNERS_OWN: Metadata = {
    "shared": [],
    "hits": None,
    "used_at": None,
    "examples_digest": None,
    "parent": None,
}
_NOT_IN_A_FILE_NAME = re.compile(r"[^A-Za-z0-9._~-]")


async def _reference(request: Request, reference: Annotated[str, Path()]) -> str:
    """Return the id or name in a request's path; `%2F` in it is a slash.

    Raises:
        InvalidPath: it is no UTF-8.
    """
    try:
        return unquote(request.path_params["reference"], errors="strict")
    except UnicodeDecodeError as error:
        raise InvalidPath("Invalid URL: Invalid UTF-8 in `reference`") from error


async def _asker(request: Request) -> Asker:
    return asker_of(request)


def _read_choice(name: str, *allowed: str) -> BeforeValidator:
    def read(value: object) -> object:
        if value is not None and value not in allowed:
            shown = str(value)[:20]
            raise InvalidRequest(
                f"{name} is {shown!r}; allowed: {', '.join(allowed)}.", ("query", name)
            )
        return value

    return BeforeValidator(read)


_ReferenceDep = Annotated[str, Depends(_reference)]
_AskerDep = Annotated[Asker, Depends(_asker)]
_Text = str | SkipJsonSchema[None]
_Owner = Annotated[_Text, Query(description="Only adapters of this owner.")]
_Name = Annotated[_Text, Query(description="Only the versions of this name.")]
_Method = Annotated[_Text, Query(description="Only those that this method has trained.")]
_Shared = Annotated[
    Literal["true", "false"] | SkipJsonSchema[None],
    _read_choice("shared", "true", "false"),
    Query(description="true: only others' that are shared with the caller; false: only own."),
]
_Format = Annotated[
    AdapterFormat,
    _read_choice("format", *_FORMATS),
    Query(description="This project's own file, or PEFT's two in a .zip."),
]
_LOOKS = (400, 404, 501, 503)
_ACTS = (*_LOOKS, 429, 500, 504, 507)


class AdapterRoutes:
    """The endpoints."""

    def __init__(self) -> None:
        self._uploads = Uploads()

    def router(self) -> APIRouter:
        """Return the routes."""
        router, one = APIRouter(), "/adapters/{reference}"
        read = ["GET", "HEAD"]
        routes: tuple[tuple[str, list[str], Callable[..., Awaitable[Response]], Any], ...] = (
            ("/adapters", read, self.page, (AdapterPage, (404, 501, 503))),
            (one, read, self.show, (Adapter, _LOOKS)),
            (one, ["DELETE"], self.remove, (Removed, (*_ACTS, 403))),
        )
        for path, methods, endpoint, (model, refused) in routes:
            router.add_api_route(
                path,
                endpoint,
                methods=methods,
                response_model=model,
                responses=refusals(*refused),
            )
        router.add_api_route(
            f"{one}/download",
            self.download,
            methods=read,
            response_class=Response,
            responses=FILE | refusals(*_ACTS),
        )
        router.add_api_route(
            one,
            self.change,
            methods=["PATCH"],
            response_model=Adapter,
            responses=refusals(*_ACTS, 403, 408, 413, 415),
            openapi_extra=CHANGES,
        )
        router.add_api_route(
            "/adapters",
            self.take,
            methods=["POST"],
            response_model=Adapter,
            status_code=201,
            responses=NO_ADAPTER | refusals(408, 413, 429, 500, 501, 503, 504, 507),
            openapi_extra=UPLOAD,
        )
        return router

    async def page(  # noqa: PLR0913 - the filters are parameters
        self,
        adapters: AdaptersDep,
        asker: _AskerDep,
        limit: Limit = 100,
        cursor: Cursor = None,
        name: _Name = None,
        method: _Method = None,
        owner: _Owner = None,
        shared: _Shared = None,
    ) -> Response:
        """Return some adapters that the caller may use, newest first."""
        is_shared = None if shared is None else shared == "true"
        filters = {"name": name, "method": method, "owner": owner, "shared": is_shared}
        try:
            query = AdapterQuery.of(limit, cursor, **filters)
        except InputError as error:
            raise NotFound(f"there is no such page: {error}.") from error
        page = await adapters.page(asker, query)
        results = [_shown(msgspec.json.decode(each), asker) for each in page.adapters]
        return json_response({"results": results, "next": page.next_cursor})

    async def show(
        self,
        adapters: AdaptersDep,
        asker: _AskerDep,
        reference: _ReferenceDep,
        owner: _Owner = None,
    ) -> Response:
        """Return one adapter: by its id, by its name for the latest version, or by NAME@vN."""
        return json_response(_shown(await adapters.find(asker, reference, owner), asker))

    async def download(
        self,
        adapters: AdaptersDep,
        asker: _AskerDep,
        reference: _ReferenceDep,
        owner: _Owner = None,
        format: _Format = "safetensors",
    ) -> Response:
        """Return an adapter as a file."""
        adapter = await adapters.find(asker, reference, owner)
        media_type, ending = _FORMATS[format]
        name = _NOT_IN_A_FILE_NAME.sub("_", f"{adapter['id']}.{ending}")
        return FileResponse(await adapters.export(adapter, format), name, media_type)

    async def take(self, request: Request, adapters: AdaptersDep, asker: _AskerDep) -> Response:
        """Keep an adapter of a file, checked, as the caller's."""
        adapters.check_offered(by_worker=True)
        with self._uploads.one_of(asker.owner):
            async with adapters.temporary_folder() as folder:
                path = folder / "upload"
                await receive_file(request, path, parts_of(request).settings.max_file_bytes)
                adapter = await adapters.take(asker.owner, path)
        location = f"/adapters/{quote(adapter['id'], safe='')}"
        return json_response(adapter, 201, {"Location": location})

    async def change(
        self,
        request: Request,
        adapters: AdaptersDep,
        asker: _AskerDep,
        reference: _ReferenceDep,
        owner: _Owner = None,
    ) -> Response:
        """Name, note, pin, share or let expire."""
        changes = await _read_changes(request)
        adapter = await _find_own(adapters, asker, reference, owner)
        return json_response(await adapters.change(adapter, changes))

    async def remove(
        self,
        adapters: AdaptersDep,
        asker: _AskerDep,
        reference: _ReferenceDep,
        owner: _Owner = None,
    ) -> Response:
        """Remove an adapter; what was made from it stays, and is named."""
        adapter = await _find_own(adapters, asker, reference, owner)
        return json_response(await adapters.remove(adapter))


async def _find_own(
    adapters: Adapters, asker: Asker, reference: str, owner: str | None
) -> Metadata:
    """Return an adapter that the asker may change.

    Raises:
        NotFound: there is none that the asker may use.
        Forbidden: it is only shared with the asker.
    """
    adapter = await adapters.find(asker, reference, owner)
    if adapter["owner"] != asker.owner and not asker.sees_all:
        raise Forbidden(
            f"adapter {reference[:80]!r} is shared with you; only its owner changes it."
        )
    return adapter


async def _read_changes(request: Request) -> dict[str, Any]:
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > _MOST_BYTES_OF_CHANGES:
            raise TooLarge(f"the changes have more than {_MOST_BYTES_OF_CHANGES} bytes.")
    return read_object(bytes(content), request.headers.get("content-type"))


def _shown(adapter: Metadata, asker: Asker) -> Metadata:
    """Return what an asker may know; how others use their adapter is theirs."""
    is_own = asker.sees_all or adapter["owner"] == asker.owner
    return adapter if is_own else adapter | _OWNERS_OWN
