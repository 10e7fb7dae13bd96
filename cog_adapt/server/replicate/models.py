"""What Replicate's API says of the one model, its versions, its host and its caller."""

import coglet
from starlette.requests import Request
from starlette.responses import Response

from cog_adapt.server.api.dependencies import key_of
from cog_adapt.server.api.responses import json_response
from cog_adapt.server.errors import Forbidden, NotFound
from cog_adapt.server.middleware.audit import note_refusal
from cog_adapt.server.replicate.call import Call, Named, version_of, version_time

_HARDWARE = {"name": "This server", "sku": "local"}


async def model(request: Request) -> Response:
    """Return the model, under whatever owner and name it was asked for."""
    call = Call(request)
    owner, name = call.model.split("/")
    body = {
        "url": f"{call.base}/v1/models/{call.model}",
        "owner": owner,
        "name": name,
        "description": None,
        "visibility": "private",
        "github_url": None,
        "paper_url": None,
        "license_url": None,
        "run_count": 0,
        "cover_image_url": None,
        "default_example": None,
        "latest_version": _version(call),
    }
    return json_response(body)


async def versions(request: Request) -> Response:
    """Return the model's one version."""
    results = [_version(Call(request))]
    return json_response({"previous": None, "next": None, "results": results})


async def version(request: Request) -> Response:
    """Return the version, or an adapter in the form of a version."""
    call, wanted = Call(request), request.path_params["version"]
    if wanted == version_of(call.service):
        return json_response(_version(call))
    if len(wanted) == len(version_of(call.service)):
        raise NotFound(f"there is no version {wanted!r} here.")
    adapter = await call.adapter(wanted)
    made = {"id": wanted, "created_at": adapter.get("created_at") or version_time(call.service)}
    return json_response(_version(call) | made)


def _version(call: Call) -> dict[str, object]:
    return {
        "id": version_of(call.service),
        "created_at": version_time(call.service),
        "cog_version": coglet.__version__,
        "openapi_schema": call.service.schema(),
    }


async def deployment(request: Request) -> Response:
    """Return the deployment of the model, which is this server."""
    call = Call(request)
    named = Named(call.model, version_of(call.service))
    owner, name = named.model.split("/")
    release = {
        "number": 1,
        "model": named.model,
        "version": named.version,
        "created_at": version_time(call.service),
        "created_by": _account(call),
        "configuration": {
            "hardware": _HARDWARE["sku"],
            "min_instances": 1,
            "max_instances": 1,
        },
    }
    return json_response({"owner": owner, "name": name, "current_release": release})


async def account(request: Request) -> Response:
    """Return the caller's owner as an account."""
    return json_response(_account(Call(request)))


def _account(call: Call) -> dict[str, object]:
    name = call.caller.owner or "local"
    return {"type": "organization", "username": name, "name": name, "github_url": None}


async def hardware(request: Request) -> Response:
    """Return the one choice of hardware."""
    return json_response([_HARDWARE])


async def webhook_secret(request: Request) -> Response:
    """Return the first secret that signs webhooks, to a key with the scope `admin` alone.

    Raises:
        Forbidden: no keys are set, so that anybody would get it.
        NotFound: webhooks are not signed.
    """
    call, key = Call(request), key_of(request)
    if key is None:
        note_refusal(request.scope, "no keys are set")
        raise Forbidden(
            "the webhook secret is for a key with the scope 'admin', and no keys are set. Set "
            "API_KEYS_FILE."
        )
    secrets = (call.parts.settings.webhook_secret or "").split()
    if not secrets:
        raise NotFound("webhooks are not signed here. Set WEBHOOK_SECRET.")
    return json_response({"key": f"whsec_{secrets[0].removeprefix('whsec_')}"})
