"""The adapters that the predictor keeps: found, named, shared, moved, removed by their owners."""

import re
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from cog_adapt.adapter_metadata import MetadataJson
from cog_adapt.adapter_rule import Asker, may_change
from cog_adapt.server.api.adapter_parameters import (
    FORMATS,
    Format,
    Label,
    Method,
    Name,
    Owner,
    ReferenceDep,
    Shared,
)
from cog_adapt.server.api.adapter_shapes import (
    CHANGES,
    FILE,
    NO_ADAPTER,
    UPLOAD,
    Adapter,
    AdapterPage,
    Removed,
    adapter_refusals,
)
from cog_adapt.server.api.body import read_object
from cog_adapt.server.api.dependencies import AdaptersDep, AskerDep, asker_of, parts_of
from cog_adapt.server.api.file_response import FileResponse
from cog_adapt.server.api.paging import Cursor, Limit
from cog_adapt.server.api.responses import json_response
from cog_adapt.server.api.upload import UploadCounter, receive_file
from cog_adapt.server.errors import (
    Forbidden,
    InputError,
    InvalidRequest,
    NotFound,
    TooLarge,
)
from cog_adapt.server.middleware.keys import OWNER_NAME
from cog_adapt.server.records.adapter_pages import AdapterQuery
from cog_adapt.server.service.adapters import AdapterService

_MOST_BYTES_OF_CHANGES = 2**16
_OWNER = ("body", "owner")
_MOST_FOUND = 100
_OWNERS_OWN: MetadataJson = {
    "shared": [],
    "hits": None,
    "used_at": None,
    "examples_digest": None,
    "parent": None,
}
_NOT_IN_A_FILE_NAME = re.compile(r"[^A-Za-z0-9._~-]")


_LOOKS = (400, 404, 503)
_ACTS = (*_LOOKS, 429, 500, 504, 507)

_OF_UPLOAD = {
    "name": "create",
    "response_model": Adapter,
    "status_code": 201,
    "responses": NO_ADAPTER | adapter_refusals(404, 408, 413, 429, 500, 503, 504, 507),
    "openapi_extra": UPLOAD,
}
_OF_CHANGE = {
    "name": "update",
    "response_model": Adapter,
    "responses": adapter_refusals(*_ACTS, 403, 408, 413, 415),
    "openapi_extra": CHANGES,
}
_OF_REMOVAL = {
    "name": "delete",
    "response_model": Removed,
    "responses": adapter_refusals(*_ACTS, 403),
}


class AdapterRoutes:
    """The endpoints."""

    def __init__(self) -> None:
        self._uploads = UploadCounter()

    def router(self) -> APIRouter:
        """Return the routes."""
        router, one = APIRouter(), "/adapters/{reference}"
        read = ["GET", "HEAD"]
        of_page = {
            "name": "list",
            "response_model": AdapterPage,
            "responses": adapter_refusals(404, 503),
        }
        of_one = {
            "name": "get",
            "response_model": Adapter,
            "responses": adapter_refusals(*_LOOKS),
        }
        of_file = {"response_class": Response, "responses": FILE | adapter_refusals(*_ACTS)}
        routes: tuple[tuple[str, list[str], Callable[..., Awaitable[Response]], Any], ...] = (
            ("/adapters", read, self.page, of_page),
            ("/adapters", ["POST"], self.take, _OF_UPLOAD),
            (one, read, self.show, of_one),
            (one, ["PATCH"], self.change, _OF_CHANGE),
            (one, ["DELETE"], self.remove, _OF_REMOVAL),
            (f"{one}/download", read, self.download, of_file),
        )
        for path, methods, endpoint, described in routes:
            router.add_api_route(path, endpoint, methods=methods, **described)
        return router

    async def page(  # noqa: PLR0913 - the filters are parameters
        self,
        adapters: AdaptersDep,
        asker: AskerDep,
        limit: Limit = 100,
        cursor: Cursor = None,
        name: Name = None,
        method: Method = None,
        owner: Owner = None,
        shared: Shared = None,
        label: Label = None,
    ) -> Response:
        """Return a page of adapters that the caller may use, newest first."""
        is_shared = None if shared is None else shared == "true"
        texts = {"name": name, "method": method, "owner": owner, "label": label}
        try:
            query = AdapterQuery.of(limit, cursor, **texts, shared=is_shared)
        except InputError as error:
            raise NotFound(f"there is no such page: {error}.") from error
        page = await adapters.page(asker, query)
        results = [_shown(msgspec.json.decode(each), asker) for each in page.adapters]
        return json_response({"results": results, "next": page.next_cursor})

    async def show(
        self,
        adapters: AdaptersDep,
        asker: AskerDep,
        reference: ReferenceDep,
        owner: Owner = None,
    ) -> Response:
        """Return one adapter: by its id, by its name for the latest version, or by NAME@vN."""
        return json_response(_shown(await adapters.find(asker, reference, owner), asker))

    async def download(  # noqa: PLR0913 - the parameters are those of the request
        self,
        request: Request,
        adapters: AdaptersDep,
        asker: AskerDep,
        reference: ReferenceDep,
        owner: Owner = None,
        format: Format = "safetensors",
    ) -> Response:
        """Return an adapter as a file; only its owner gets the receipt."""
        find = _find_own if format == "receipt" else AdapterService.find
        adapter = await find(adapters, asker, reference, owner=owner)
        media_type, ending = FORMATS[format]
        name = _NOT_IN_A_FILE_NAME.sub("_", f"{adapter['id']}.{ending}")
        file = await adapters.export(adapter, format)
        pace = parts_of(request).file_pace
        return FileResponse(file, name, media_type, pace=pace, owner=asker.owner)

    async def take(self, request: Request, adapters: AdaptersDep, asker: AskerDep) -> Response:
        """Check and store the adapter in a file, for the caller's owner."""
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
        asker: AskerDep,
        reference: ReferenceDep,
        owner: Owner = None,
    ) -> Response:
        """Change an adapter's name, notes, pin, sharing, expiry or owner."""
        changes = await _read_changes(request)
        _check_receiver(asker, changes)
        adapter = await _find_own(adapters, asker, reference, owner=owner)
        return json_response(await adapters.change(adapter, changes))

    async def remove(
        self,
        adapters: AdaptersDep,
        asker: AskerDep,
        reference: ReferenceDep,
        owner: Owner = None,
    ) -> Response:
        """Remove an adapter; the answer names the adapters made from it, which stay."""
        adapter = await _find_own(adapters, asker, reference, owner=owner)
        removed = await adapters.remove(adapter)
        await adapters.reach_all()
        return json_response(removed)


async def _find_own(
    adapters: AdapterService, asker: Asker, reference: str, owner: str | None
) -> MetadataJson:
    """Return an adapter that the asker may change.

    Raises:
        NotFound: there is no such adapter that the asker may use.
        InvalidRequest: the reference means adapters of several owners.
        Forbidden: the adapter is only shared with the asker.
    """
    adapter = await adapters.find(asker, reference, owner, to_change=True)
    if not may_change(asker, adapter["owner"]):
        raise Forbidden(
            f"adapter {reference[:80]!r} is shared with you; only its owner may change it or get "
            "its receipt."
        )
    return adapter


def _check_receiver(asker: Asker, changes: dict[str, Any]) -> None:
    """Refuse a change of owner without `admin`, beside other changes, or to a wrong name.

    Raises:
        Forbidden: the key lacks the scope `admin`.
        InvalidRequest: the owner's name is not allowed, or there are other changes.
    """
    if "owner" not in changes:
        return
    if not asker.sees_all:
        raise Forbidden("only a key with the scope `admin` gives an adapter to another owner.")
    if len(changes) > 1:
        raise InvalidRequest(
            "owner must be changed alone. Send the other changes before or after.", _OWNER
        )
    if not isinstance(changes["owner"], str) or not OWNER_NAME.fullmatch(changes["owner"]):
        raise InvalidRequest(
            f"owner is {str(changes['owner'])[:80]!r}; it has 1 to 64 letters, digits, dots, '_', "
            "'@', '-', and starts with a letter or digit. Send one as in API_KEYS_FILE.",
            _OWNER,
        )


async def _read_changes(request: Request) -> dict[str, Any]:
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > _MOST_BYTES_OF_CHANGES:
            raise TooLarge(f"the changes have more than {_MOST_BYTES_OF_CHANGES} bytes.")
    return read_object(bytes(content), request.headers.get("content-type"))


async def find_adapters(request: Request, reference: str | None = None) -> list[MetadataJson]:
    """Return the metadata of the adapters that the caller of a route of your own may use.

    Args:
        request: of the caller.
        reference: an id, a name or NAME@vN: return this adapter alone; None: the newest hundred.

    Raises:
        NotFound: there is no such adapter for this caller.
        NoAdapters: the predictor keeps none.
    """
    adapters, asker = parts_of(request).adapters, await asker_of(request)
    if reference is not None:
        return [_shown(await adapters.find(asker, reference), asker)]
    page = await adapters.page(asker, AdapterQuery.of(_MOST_FOUND, None))
    return [_shown(msgspec.json.decode(each), asker) for each in page.adapters]


def _shown(adapter: MetadataJson, asker: Asker) -> MetadataJson:
    """Return the metadata for an asker; only the owner sees how others use the adapter."""
    return adapter if may_change(asker, adapter["owner"]) else adapter | _OWNERS_OWN
