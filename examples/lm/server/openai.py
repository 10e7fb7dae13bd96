"""OpenAI's `/v1/chat/completions` and `/v1/completions`, streamed and not.

Each request is a prediction as by POST /predictions: with the same checks, keys, queue and
records. https://platform.openai.com/docs/api-reference describes the bodies.
"""

import json
import time
from collections.abc import AsyncIterator
from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, Field
from starlette.responses import Response

from cog_adapt import OwnRun, start_prediction

BASE = "base"
router = APIRouter()


class StreamOptions(BaseModel):
    """What a stream has besides its pieces."""

    include_usage: bool = False


class Asked(BaseModel):
    """What both routes take; other fields are ignored, as OpenAI's clients send many."""

    model: str = BASE
    max_tokens: int | None = Field(default=None, ge=1)
    temperature: float = 1.0
    top_p: float = 1.0
    stop: str | list[str] | None = None
    seed: int | None = None
    n: Literal[1] = 1
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()

    def inputs(self) -> dict[str, Any]:
        """Return the predictor's inputs, but for the text."""
        stops = [self.stop] if isinstance(self.stop, str) else self.stop
        found = {
            "adapter": "" if self.model == BASE else self.model,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "max_tokens": self.max_tokens,
            "stop": stops,
            "seed": self.seed,
        }
        return {name: value for name, value in found.items() if value is not None}


class Part(BaseModel):
    """A part of a message; texts alone are read."""

    type: Literal["text"]
    text: str


class Message(BaseModel):
    """What one side said."""

    role: str
    content: str | list[Part]

    def plain(self) -> dict[str, str]:
        """Return it with one text."""
        content = self.content
        text = content if isinstance(content, str) else "".join(part.text for part in content)
        return {"role": self.role, "content": text}


class ChatAsked(Asked):
    """The body of `/v1/chat/completions`."""

    messages: list[Message] = Field(min_length=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)

    def inputs(self) -> dict[str, Any]:
        """Return the predictor's inputs."""
        newer = {"max_tokens": self.max_completion_tokens} if self.max_completion_tokens else {}
        said = [message.plain() for message in self.messages]
        return super().inputs() | newer | {"messages": said}


class TextAsked(Asked):
    """The body of `/v1/completions`: a text to go on with."""

    prompt: str

    def inputs(self) -> dict[str, Any]:
        """Return the predictor's inputs."""
        return super().inputs() | {"prompt": self.prompt, "raw": True}


@router.post("/v1/chat/completions", response_model=None)
async def chat(request: Request, asked: ChatAsked) -> Response:
    """Answer messages."""
    return await _answered(request, asked, _Chat("chatcmpl", "chat.completion"))


@router.post("/v1/completions", response_model=None)
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
    run = await start_prediction(request, asked.inputs())
    if asked.stream:
        return await _streamed(run, asked, form)
    body = await run.ended()
    if body["status"] != "succeeded":
        return _failed(body)
    choice = {"index": 0, "finish_reason": _took(body)["finish_reason"]}
    choices = [choice | form.whole("".join(body["output"]))]
    whole = form.body(run, asked.model, form.object, choices=choices, usage=_usage(body))
    return JSONResponse(whole)


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
        yield event([form.piece("") | end])
        if asked.stream_options.include_usage:
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


def _failed(body: dict[str, Any]) -> JSONResponse:
    return JSONResponse(_error(body), 400)  # to send the same again would fail again


def _error(body: dict[str, Any]) -> dict[str, Any]:
    words = body.get("error") or "the prediction was cancelled."
    return {"error": {"message": words, "type": "invalid_request_error", "code": None}}
