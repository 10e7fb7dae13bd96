"""One request by Replicate's API: who asks, and the model as the API names it."""

import hashlib
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from starlette.requests import Request

from cog_adapt.server.api.dependencies import asker_of, caller_of, parts_of
from cog_adapt.server.errors import InvalidRequest, NotReady
from cog_adapt.server.files.signed_urls import SignedUrls
from cog_adapt.server.files.upload_rows import uploads_of
from cog_adapt.server.files.uploads import Uploads
from cog_adapt.server.service.platform_form import Origin
from cog_adapt.server.service.service import PredictionService

LOCAL_MODEL = "local/model"
_HOST = re.compile(r"[A-Za-z0-9._-]{1,255}(?::[0-9]{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](?::[0-9]{1,5})?")
_MODEL = re.compile(r"[^/:\s]{1,100}/[^/:\s]{1,100}")
_VERSION = re.compile(r"[0-9a-f]{64}")
_SHOWN = 80


class Named(NamedTuple):
    """What a request runs.

    Attributes:
        model: `owner/name`.
        version: as the answer shows it.
        adapter: the reference of an adapter; None: the base.
    """

    model: str
    version: str
    adapter: str | None = None


class Call:
    """A request, and the parts of the server that answer it."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.parts = parts_of(request)
        self.caller = caller_of(request)
        self.service: PredictionService = self.parts.service
        self.base = _base_of(request, self.parts.settings.public_url)

    @property
    def signed(self) -> SignedUrls:
        """Signs URLs, and checks them."""
        return self.parts.signed

    @property
    def uploads(self) -> Uploads:
        """The callers' files."""
        return uploads_of(self.parts.settings)

    @property
    def model(self) -> str:
        """The `owner/name` in the path; any is this server's one model."""
        parts = self.request.path_params
        if "owner" not in parts:
            return LOCAL_MODEL
        return f"{parts['owner']}/{parts['name']}"

    @property
    def origin(self) -> Origin:
        """What a record of Cog's API is said to have named."""
        return Origin(self.base, LOCAL_MODEL, version_of(self.service))

    async def adapter(self, reference: str) -> dict[str, Any]:
        """Return an adapter that the caller may use.

        Raises:
            NotFound: there is none.
            NoAdapters: the predictor keeps none.
        """
        return await self.parts.adapters.find(await asker_of(self.request), reference)

    async def named(self, version: msgspec.Raw) -> Named:
        """Return what a body's `version` names: a version, `o/n`, `o/n:VERSION` or an adapter.

        Raises:
            InvalidRequest: it is no text, or a version of another model.
            NotFound: it names an adapter that the caller may not use.
        """
        text = _text(version, "version")
        own = version_of(self.service)
        if text is None:
            return Named(self.model, own)
        head, colon, tail = text.partition(":")
        is_model = _MODEL.fullmatch(head) is not None
        reference = tail if is_model else text
        model = head if is_model else self.model
        if reference == own or (is_model and not colon):
            return Named(model, own)
        if _VERSION.fullmatch(reference) or not reference:
            raise InvalidRequest(
                f"version {reference[:_SHOWN]!r} is not served here. Send {own!r}, or none.",
                ("body", "version"),
            )
        await self.adapter(reference)
        return Named(model, reference, reference)


def destination_of(value: msgspec.Raw) -> str:
    """Return the `owner/name` that a training is to become; the name is the adapter's.

    Raises:
        InvalidRequest: it is missing, or has another form.
    """
    text = _text(value, "destination")
    if text is None or not _MODEL.fullmatch(text):
        shown = "missing" if text is None else repr(text[:_SHOWN])
        raise InvalidRequest(
            f"destination is {shown}; send OWNER/NAME, whose NAME the trained adapter gets.",
            ("body", "destination"),
        )
    return text


def version_of(service: PredictionService) -> str:
    """Return the version of the model: 64 hex digits, the same on all servers of this code.

    Raises:
        NotReady: the code is not loaded yet.
    """
    description = service.description
    if description is None:
        raise NotReady(service.why_not_ready)
    code = _code_of(service)
    content = code.read_bytes() if code.is_file() else b""
    return hashlib.sha256(description.schema + b"\0" + content).hexdigest()


def version_time(service: PredictionService) -> datetime:
    """Return the time at which the model's code was changed."""
    code = _code_of(service)
    return datetime.fromtimestamp(code.stat().st_mtime if code.is_file() else 0, UTC)


def _code_of(service: PredictionService) -> Path:
    settings = service.settings
    reference = settings.cog_predict_type_stub or settings.cog_train_type_stub or ""
    return Path(reference.partition(":")[0])


def _text(value: msgspec.Raw, name: str) -> str | None:
    decoded = msgspec.json.decode(value)
    if decoded is not None and not isinstance(decoded, str):
        shown = msgspec.json.encode(decoded)[:_SHOWN].decode(errors="replace")
        raise InvalidRequest(f"{name} is {shown}; send a text.", ("body", name))
    return decoded


def _base_of(request: Request, public_url: str | None) -> str:
    """Return the server's address, by the setting, or as the client wrote it."""
    if public_url is not None:
        return public_url.rstrip("/")
    host = request.headers.get("host", "")
    if not _HOST.fullmatch(host):
        name, port = request.scope.get("server") or ("localhost", 80)
        host = f"{name}:{port}"
    return f"{request.url.scheme}://{host}"
