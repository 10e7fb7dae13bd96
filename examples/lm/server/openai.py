"""OpenAI's `/v1/chat/completions`, `/v1/completions` and `/v1/models`.

Each completion is a prediction as by POST /predictions: with the same checks, keys, queue and
records. `extra_body={"examples": …, "steps": …}` of OpenAI's clients fine-tunes in the request.
"""

import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import datetime
from typing import Any

from fastapi import APIRouter, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from fastapi.routing import APIRoute
from starlette.responses import Response

from cog_adapt import OwnRun, RequestError, find_adapters, refusal_of, start_prediction
from examples.lm.server.openai_bodies import (
    BASE,
    Asked,
    ChatAsked,
    TextAsked,
    UnsupportedError,
)


class _Route(APIRoute):
    """A route whose refusals have OpenAI's form: clients show their users `error.message`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await handle(request)
            except UnsupportedError as error:
                return _refused(400, str(error), error.field)
            except (RequestValidationError, RequestError) as error:
                refusal = refusal_of(error)
                status = 400 if refusal.status == 422 else refusal.status
                return _refused(status, refusal.message, refusal.field, refusal.retry_after)

        return answer


router = APIRouter(route_class=_Route, tags=["openai"])


@router.get("/v1/models", name="list", response_model=None)
async def models(request: Request) -> Response:
    """List the base, and the adapters that the caller may name as `model`."""
    data = [_model(BASE), *map(_of_adapter, await find_adapters(request))]
    return JSONResponse({"object": "list", "data": data})


@router.get("/v1/models/{model}", name="get", response_model=None)
async def model(request: Request, model: str) -> Response:
    """Return one model."""
    if model == BASE:
        return JSONResponse(_model(BASE))
    (found,) = await find_adapters(request, model)
    return JSONResponse(_of_adapter(found))


def _of_adapter(adapter: dict[str, Any]) -> dict[str, Any]:
    name, number = adapter.get("name"), adapter.get("version")
    shown = f"{name}@v{number}" if name and number else adapter["id"]
    made = datetime.fromisoformat(adapter["created_at"]) if adapter.get("created_at") else None
    return _model(shown, int(made.timestamp()) if made else 0, adapter.get("owner") or "")


def _model(name: str, created: int = 0, owner: str = "") -> dict[str, Any]:
    return {"id": name, "object": "model", "created": created, "owned_by": owner}


@router.post("/v1/chat/completions", name="create", response_model=None)
async def chat(request: Request, asked: ChatAsked) -> Response:
    """Answer messages."""
    return await _answered(request, asked, _Chat("chatcmpl", "chat.completion"))


@router.post("/v1/completions", name="create", response_model=None)
async def completions(request: Request, asked: TextAsked) -> Response:
    """Go on with a text."""
    return await _answered(request, asked, _Text("cmpl", "text_completion"))


class _Text:
    """The form of an answer, whole or in pieces."""

    def __init__(self, prefix: str, object: str) -> None:
        self._prefix, self.object = prefix, object
        self.piece_object = object

    def body(self, run: OwnRun, model: str, object: str, **rest: Any) -> dict[str, Any]:
        """Return the fields of every body, and these."""
        common = {"id": f"{self._prefix}-{run.id}", "object": object, "model": model}
        return {**common, "created": int(time.time()), **rest}

    def whole(self, text: str) -> dict[str, Any]:
        """Return a choice's whole text."""
        return {"text": text, "logprobs": None}

    def piece(self, text: str) -> dict[str, Any]:
        """Return a piece of a choice's text."""
        return self.whole(text)


class _Chat(_Text):
    """The form of an answer to messages."""

    def __init__(self, prefix: str, object: str) -> None:
        super().__init__(prefix, object)
        self.piece_object = f"{object}.chunk"

    def whole(self, text: str) -> dict[str, Any]:
        """Return a choice's message."""
        return {"message": {"role": "assistant", "content": text}}

    def piece(self, text: str) -> dict[str, Any]:
        """Return a piece of a choice's message."""
        return {"delta": {"role": "assistant", "content": text}}


async def _answered(request: Request, asked: Asked, form: _Text) -> Response:
    asked.check()
    run = await start_prediction(request, asked.inputs())
    if asked.stream:
        return await _streamed(run, asked, form)
    body = await run.ended()
    if body["status"] != "succeeded":
        return _failed(body)
    choice = {"index": 0, "finish_reason": _took(body)["finish_reason"]}
    choices = [choice | form.whole("".join(body["output"]))]
    rest = {"choices": choices, "usage": _usage(body), **_learned(body)}
    return JSONResponse(form.body(run, asked.model, form.object, **rest))


async def _streamed(run: OwnRun, asked: Asked, form: _Text) -> Response:
    """Send the first piece with the status; an earlier failure has a status of its own."""
    pieces = aiter(run.outputs())
    first: str | None = await anext(pieces, None)
    if first is None:
        body = await run.ended()
        if body["status"] != "succeeded":
            return _failed(body)
    events = _events(run, asked, form, first, pieces)
    return StreamingResponse(events, media_type="text/event-stream")


async def _events(
    run: OwnRun, asked: Asked, form: _Text, first: str | None, pieces: AsyncIterator[str]
) -> AsyncIterator[str]:
    def event(choices: list[dict[str, Any]], **rest: Any) -> str:
        return _event(form.body(run, asked.model, form.piece_object, choices=choices, **rest))

    try:
        if first is not None:
            yield event([{"index": 0, "finish_reason": None} | form.piece(first)])
        async for piece in pieces:
            yield event([{"index": 0, "finish_reason": None} | form.piece(piece)])
        body = await run.ended()
        if body["status"] != "succeeded":
            yield _event(_error(body))
            return
        end = {"index": 0, "finish_reason": _took(body)["finish_reason"]}
        yield event([form.piece("") | end], **_learned(body))
        if asked.stream_options is not None and asked.stream_options.include_usage:
            yield event([], usage=_usage(body))
        yield "data: [DONE]\n\n"
    finally:
        run.cancel()  # where the client left; else it has ended


def _event(body: dict[str, Any]) -> str:
    return f"data: {json.dumps(body, ensure_ascii=False)}\n\n"


def _took(body: dict[str, Any]) -> dict[str, Any]:
    took: dict[str, Any] = body["metrics"]["generation"]
    return took


def _usage(body: dict[str, Any]) -> dict[str, int]:
    took = _took(body)
    read, made = took["prompt_tokens"], took["completion_tokens"]
    return {"prompt_tokens": read, "completion_tokens": made, "total_tokens": read + made}


def _learned(body: dict[str, Any]) -> dict[str, Any]:
    """Return what a request with examples has made: an adapter to name as `model` later."""
    adaptation = body["metrics"].get("adaptation")
    return {} if adaptation is None else {"adaptation": adaptation}


def _failed(body: dict[str, Any]) -> JSONResponse:
    return JSONResponse(_error(body), 400)  # to send the same again would fail again


def _refused(
    status: int, message: str, field: str | None = None, retry_after: int | None = None
) -> JSONResponse:
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return JSONResponse(_error({"error": message}, field), status, headers)


def _error(body: dict[str, Any], field: str | None = None) -> dict[str, Any]:
    words = body.get("error") or "the prediction was cancelled."
    kind = "invalid_request_error"
    return {"error": {"message": words, "type": kind, "param": field, "code": None}}
