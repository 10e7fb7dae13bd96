"""Files by Replicate's API: uploaded as inputs, each of one owner, until they expire."""

import asyncio
from typing import Any

import msgspec
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from cog_adapt.server.api.file_response import FileResponse
from cog_adapt.server.api.responses import json_response
from cog_adapt.server.api.upload import UploadCounter
from cog_adapt.server.errors import InvalidRequest, NotFound
from cog_adapt.server.files.uploads import Upload
from cog_adapt.server.replicate.call import Call

_PURPOSE = "file"
_MOST_FILES, _MOST_FIELDS = 2, 8  # one client sends `metadata` as a file
_MOST_BYTES_OF_FIELD = 2**16
_MOST_NAME = 200
_BINARY = "application/octet-stream"


class FileRoutes:
    """The endpoints."""

    def __init__(self) -> None:
        self._counter = UploadCounter()

    async def create(self, request: Request) -> Response:
        """Keep a file of a multipart body."""
        call = Call(request)
        with self._counter.one_of(call.caller.owner):
            length = request.headers.get("content-length", "0")
            announced = int(length) if length.isdecimal() else 0
            await asyncio.to_thread(call.uploads.refuse_if_full, call.caller.owner, announced)
            form = await _read_form(request)
            try:
                upload = await _keep(call, form)
            finally:
                await form.close()
        return json_response(_shown(call, upload), 201)

    async def page(self, request: Request) -> Response:
        """Return the caller's files, newest first; they are few enough for one page."""
        call = Call(request)
        found = await asyncio.to_thread(call.uploads.of_owner, call.caller.owner)
        results = [_shown(call, upload) for upload in found]
        return json_response({"previous": None, "next": None, "results": results})

    async def show(self, request: Request) -> Response:
        """Return the description of a file."""
        call = Call(request)
        return json_response(_shown(call, await _find(call, call.caller.owner)))

    async def remove(self, request: Request) -> Response:
        """Remove a file."""
        call = Call(request)
        upload = await _find(call, call.caller.owner)
        await asyncio.to_thread(call.uploads.remove, upload.owner, upload.id)
        return Response(status_code=204)

    async def download(self, request: Request) -> Response:
        """Return the content of a file to whoever has its signed URL."""
        call = Call(request)
        identifier = request.path_params["file_id"]
        upload = await _find(call, call.signed.owner(_PURPOSE, identifier, request.query_params))
        try:
            file = await asyncio.to_thread(call.uploads.open, upload)
        except FileNotFoundError as error:
            raise _unknown(call, identifier) from error
        pace = call.parts.file_pace
        return FileResponse(file, upload.id, _BINARY, pace=pace, owner=upload.owner)


async def _read_form(request: Request) -> FormData:
    """Return the parts of a body; a file's content lies in a temporary file.

    Raises:
        InvalidRequest: it is no multipart body, or has too many or too large parts.
    """
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise InvalidRequest(
            "Content-Type is not multipart/form-data. Send the file as the part `content`.",
            ("body", "content"),
        )
    try:
        return await request.form(
            max_files=_MOST_FILES, max_fields=_MOST_FIELDS, max_part_size=_MOST_BYTES_OF_FIELD
        )
    except HTTPException as error:  # starlette's form of every fault in a multipart body
        raise InvalidRequest(
            f"the multipart body cannot be read: {error.detail} Send the part `content` with a "
            "file name, and small ones beside it.",
            ("body", "content"),
        ) from error


async def _keep(call: Call, form: FormData) -> Upload:
    content = form.get("content")
    if not isinstance(content, UploadFile):
        raise InvalidRequest(
            "the part `content` is missing, or no file: give it a file name.", ("body", "content")
        )
    return await asyncio.to_thread(
        call.uploads.add,
        call.caller.owner,
        content.file,
        name=(await _text(form, "filename") or content.filename or "file")[:_MOST_NAME],
        content_type=(await _text(form, "type") or content.content_type or _BINARY)[:_MOST_NAME],
        metadata=await _metadata(form),
    )


async def _text(form: FormData, name: str) -> str | None:
    """Return the text of a part, which some clients send as a file."""
    value = form.get(name)
    if isinstance(value, UploadFile):
        content = await value.read(_MOST_BYTES_OF_FIELD + 1)
        if len(content) > _MOST_BYTES_OF_FIELD:
            raise InvalidRequest(
                f"{name} has more than {_MOST_BYTES_OF_FIELD} bytes. Shorten it.", ("body", name)
            )
        return content.decode(errors="replace")
    return value


async def _metadata(form: FormData) -> dict[str, Any]:
    """Return the caller's metadata: one JSON object, or parts named `metadata[KEY]`."""
    text = await _text(form, "metadata")
    try:
        known: dict[str, Any] = msgspec.json.decode(text or "{}", type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise InvalidRequest(
            f"metadata is no JSON object: {error}. Send one, or leave it out.", ("body", "metadata")
        ) from error
    parts = {key: value for key, value in form.items() if isinstance(value, str)}
    named = {key[9:-1]: value for key, value in parts.items() if key.startswith("metadata[")}
    return known | named


async def _find(call: Call, owner: str) -> Upload:
    identifier = call.request.path_params["file_id"]
    upload = await asyncio.to_thread(call.uploads.get, owner, identifier)
    if upload is None:
        raise _unknown(call, identifier)
    return upload


def _unknown(call: Call, identifier: str) -> NotFound:
    call.caller.note_unknown()
    return NotFound(f"there is no file {identifier[:80]!r} of yours; it may have expired.")


def _shown(call: Call, upload: Upload) -> dict[str, Any]:
    url = f"{call.base}/v1/files/{upload.id}"
    query = call.signed.query(_PURPOSE, upload.id, upload.owner)
    return {
        "id": upload.id,
        "name": upload.name,
        "content_type": upload.content_type,
        "size": upload.size,
        "etag": upload.sha256,
        "checksums": {"sha256": upload.sha256},
        "metadata": upload.metadata,
        "created_at": upload.created_at,
        "expires_at": upload.expires_at,
        "urls": {"get": url, "download": f"{url}/download?{query}"},
    }
