"""Predictions for routes of your own: they run like POST /predictions, in another form.

A route of another protocol passes the inputs to `start_prediction`. They are checked, queued, run
and recorded like those of the server's own routes, for the owner of the key.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from starlette.requests import Request

from cog_adapt.server.api.dependencies import parts_of
from cog_adapt.server.api.leaving import watched
from cog_adapt.server.api.requests import PASSED_ON, RequestParser, with_owner
from cog_adapt.server.errors import JsonError, NotFound
from cog_adapt.server.service.dispatcher import Dispatcher
from cog_adapt.server.service.prediction import Prediction, PredictionSpec, new_id


class OwnRun:
    """A prediction that your own route has started.

    Attributes:
        id: of the prediction, whose record GET /predictions shows.
    """

    def __init__(self, request: Request, dispatcher: Dispatcher, prediction: Prediction) -> None:
        self.id = prediction.id
        self._request = request
        self._dispatcher = dispatcher
        self._prediction = prediction
        self._reader = prediction.events.follow(0)

    async def outputs(self) -> AsyncIterator[Any]:
        """Yield the predictor's outputs as they come.

        It is cancelled if the client leaves, even before the first piece, or the reading stops.
        """
        async with self._reading(), watched(self._request.receive, self.cancel):
            async for chunk in self._chunks():
                yield chunk

    async def ended(self) -> dict[str, Any]:
        """Wait for the end, cancelled if the client leaves; return the body of POST /predictions.

        Its `status` is succeeded, failed or canceled; `output`, `error` and `metrics` are Cog's.
        """
        async with watched(self._request.receive, self.cancel):
            await asyncio.wait({self._prediction.done})
        body: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self._prediction.answer()))
        return body

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[None]:
        """Cancel the prediction when its outputs are not read to the end."""
        try:
            yield
        finally:
            await self._reader.aclose()
            self.cancel()

    async def _chunks(self) -> AsyncIterator[Any]:
        async for portion in self._reader:
            for event in (each for each in portion if each.name == "output"):
                yield msgspec.json.decode(event.data)["chunk"]

    def cancel(self) -> None:
        """Cancel it; without effect if it has ended."""
        if not self._prediction.is_final:
            self._dispatcher.cancel(self.id, self._prediction.request.owner)


async def start_prediction(request: Request, inputs: Mapping[str, Any]) -> OwnRun:
    """Start a prediction with these inputs, for the caller of the request.

    Raises:
        NotReady: the server cannot run predictions now.
        JsonError: a text has half a surrogate pair, which JSON cannot hold.
        InvalidInputs: the inputs do not fit.
        QueueFull: the queue has no room.
    """
    parts = parts_of(request)
    dispatcher = parts.service.dispatcher("predict")
    if dispatcher is None:
        raise NotFound("this server runs no predictions; it has no code for them.")
    try:
        content = msgspec.json.encode(inputs)
    except UnicodeEncodeError as error:
        raise JsonError(f"the inputs cannot be written as JSON: {error}. Correct them.") from error
    parser = RequestParser(
        service=parts.service,
        webhooks=parts.webhooks,
        kind="predict",
        runs=dispatcher.kind,
        large=parts.large_bodies,
    )
    asked = PredictionSpec(
        id=new_id(),
        kind=dispatcher.kind,
        input=content,
        redacted_input=b"",
        context=with_owner({}, request),
        headers={name: request.headers[name] for name in PASSED_ON if name in request.headers},
        problems=None,
    )
    asked = parser.checked(asked)
    dispatcher.start()
    return OwnRun(request, dispatcher, await dispatcher.submit(asked))
