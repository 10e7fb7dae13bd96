"""The clients of a server: `AsyncClient`, and `Client` for callers that block."""

import json
import os
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, Self

import httpx2

from cog_adapt.client.adapters import Adapters, AsyncAdapters
from cog_adapt.client.connection import Call, Connection, refused_url
from cog_adapt.client.errors import NotReady
from cog_adapt.client.files import FileLimits
from cog_adapt.client.run import Event, Kind, Run
from cog_adapt.client.runs import Runs, Terms
from cog_adapt.client.transport import (
    AsyncTransport,
    Blocking,
    BlockingTransport,
    Transport,
    blocking,
    iterating,
)

DEFAULT_URL = "http://127.0.0.1:5000"
# 64 MiB become 86 MiB of base64, and a server takes bodies of 100 MB (MAX_BODY_BYTES)
MAX_FILE_BYTES = 64 * 2**20
UPLOAD_ABOVE = 2**20
_SECONDS = 30.0  # limit for an answer that waits for no run
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_READY = ("READY", "BUSY")
_BROKEN = ("SETUP_FAILED", "DEFUNCT", "UNHEALTHY", "UNKNOWN")
Inputs = Mapping[str, Any]
OnEvent = Callable[[Event], object]


class _Calls:
    """All calls, over either transport.

    Attributes:
        adapters: the adapters that the key may use.
    """

    def __init__(
        self,
        http: httpx2.Client | httpx2.AsyncClient,
        transport: Transport,
        *,
        patience: float,
        files: FileLimits,
    ) -> None:
        self._connection = Connection(http, transport, patience)
        self._transport = transport
        self._runs = Runs(self._connection, files)
        self.adapters = AsyncAdapters(self._connection)

    async def predict(
        self,
        inputs: Inputs | None = None,
        /,
        *,
        run_id: str | None = None,
        deadline: float | None = None,
        retries: int = 0,
        on_event: OnEvent | None = None,
        **more: Any,  # noqa: ANN401 - of the predictor's types
    ) -> Run:
        """Run a prediction to its end, and return it.

        A caller that leaves, by Ctrl-C, with its task, or by an error of `on_event`, cancels the
        run.

        Args:
            inputs: by name. A `Path`, also within lists and rows, is sent as a file.
            run_id: chosen by the caller: a second call with an equal id and equal inputs does not
                run again, and has the same result.
            deadline: seconds after which the server cancels the run; if the server does not answer
                either, the call ends 25 s later at the latest.
            retries: how often it runs again after a crash of the server or its worker.
            on_event: called with each event as it comes.
            more: further inputs, by keyword.

        Raises:
            ClientError: of the kind of the refusal; `RunFailed` or `RunCanceled` at its end.
        """
        terms = Terms(kind="predict", run_id=run_id, deadline=deadline, retries=retries)
        return await self._runs.finish(terms, {**(inputs or {}), **more}, on_event)

    async def train(
        self,
        inputs: Inputs | None = None,
        /,
        *,
        run_id: str | None = None,
        deadline: float | None = None,
        retries: int = 0,
        on_event: OnEvent | None = None,
        **more: Any,  # noqa: ANN401 - of the training's types
    ) -> Run:
        """Run a training to its end, and return it; as `predict`."""
        terms = Terms(kind="train", run_id=run_id, deadline=deadline, retries=retries)
        return await self._runs.finish(terms, {**(inputs or {}), **more}, on_event)

    def events(
        self,
        inputs: Inputs,
        *,
        kind: Kind = "predict",
        run_id: str | None = None,
        deadline: float | None = None,
        retries: int = 0,
    ) -> AsyncGenerator[Event]:
        """Start a run, and yield its events; the last is `completed`, however the run ended."""
        terms = Terms(kind=kind, run_id=run_id, deadline=deadline, retries=retries)
        return self._runs.events(terms, inputs)

    async def start(
        self,
        inputs: Inputs,
        *,
        kind: Kind = "predict",
        run_id: str | None = None,
        deadline: float | None = None,
        retries: int = 0,
    ) -> Run:
        """Start a run, and do not wait for it."""
        terms = Terms(kind=kind, run_id=run_id, deadline=deadline, retries=retries)
        return await self._runs.start(terms, inputs)

    def follow(
        self, run_id: str, *, kind: Kind = "predict", after: int = 0
    ) -> AsyncGenerator[Event]:
        """Yield the events of a run after a number, each once, over cut connections."""
        return self._runs.follow(kind, run_id, after)

    async def get(self, run_id: str, *, kind: Kind = "predict") -> Run:
        """Return a run, ended or not."""
        return await self._runs.get(kind, run_id)

    async def cancel(self, run_id: str, *, kind: Kind = "predict") -> bool:
        """Cancel a run; return False if the server has no such run in flight."""
        return await self._runs.cancel(kind, run_id)

    async def wait_until_ready(self, seconds: float = 300.0, pause: float = 1.0) -> None:
        """Wait until the server is ready, and ask it after each pause.

        Raises:
            NotReady: setup has failed, or takes longer.
            Unreachable: nothing listens there.
        """
        deadline = time.monotonic() + seconds
        while not _is_ready(await self._connection.json(Call("GET", "/health-check")), deadline):
            await self._transport.pause(pause)

    async def document(self) -> dict[str, Any]:
        """Return the OpenAPI document, which servers have once they are ready."""
        return await self._connection.json(Call("GET", "/openapi.json"))

    async def request(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        """Send a request to a route of your own; return the answer, whatever its status."""
        content = None if body is None else json.dumps(body).encode()
        call = Call(method, path, content)
        call = call._replace(headers={**call.headers, **(headers or {})})
        return await self._connection.read(call)

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()


class AsyncClient(_Calls):
    """A client of one server, for an event loop.

    Args:
        url: the server's root; by default COG_ADAPT_URL, else this machine's port 5000.
        key: an API key; by default API_KEY.
        patience: seconds for which a cut connection is tried again.
        max_file_bytes: of all files that the body of one run contains.
        upload_above: bytes of an input's file above which it is uploaded before the run.

    Attributes:
        url: as above.
        key: as above, or None.

    Raises:
        RefusedInput: the URL is none.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        patience: float = 60.0,
        max_file_bytes: int = MAX_FILE_BYTES,
        upload_above: int = UPLOAD_ABOVE,
    ) -> None:
        self.url = _url(url)
        self.key = key or os.environ.get("API_KEY") or None
        http = httpx2.AsyncClient(**_options(self.url, self.key))
        files = FileLimits(max_file_bytes, upload_above)
        super().__init__(http, AsyncTransport(http), patience=patience, files=files)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()


class Client(Blocking[_Calls]):
    """A client of one server, whose calls block; as `AsyncClient`.

    Attributes:
        adapters: the adapters that the key may use.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        patience: float = 60.0,
        max_file_bytes: int = MAX_FILE_BYTES,
        upload_above: int = UPLOAD_ABOVE,
    ) -> None:
        self.url = _url(url)
        self.key = key or os.environ.get("API_KEY") or None
        http = httpx2.Client(**_options(self.url, self.key))
        files = FileLimits(max_file_bytes, upload_above)
        calls = _Calls(http, BlockingTransport(http), patience=patience, files=files)
        super().__init__(calls)
        self.adapters = Adapters(calls.adapters)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    predict = blocking(_Calls.predict)
    train = blocking(_Calls.train)
    events = iterating(_Calls.events)
    start = blocking(_Calls.start)
    follow = iterating(_Calls.follow)
    get = blocking(_Calls.get)
    cancel = blocking(_Calls.cancel)
    wait_until_ready = blocking(_Calls.wait_until_ready)
    document = blocking(_Calls.document)
    request = blocking(_Calls.request)
    close = blocking(_Calls.close)


def _url(url: str | None) -> str:
    return (url or os.environ.get("COG_ADAPT_URL") or DEFAULT_URL).rstrip("/")


def _options(url: str, key: str | None) -> dict[str, Any]:
    try:
        host = httpx2.URL(url).host
    except httpx2.InvalidURL as error:
        raise refused_url(url, error) from error
    return {
        "base_url": url,
        "headers": {"Authorization": f"Bearer {key}"} if key else {},
        "timeout": _SECONDS,
        "trust_env": host not in _LOOPBACK,  # no proxy leads to this machine
    }


def _is_ready(health: dict[str, Any], deadline: float) -> bool:
    status = health.get("status")
    logs = str((health.get("setup") or {}).get("logs") or "").rstrip()
    if status in _BROKEN:
        reason = str(health.get("user_healthcheck_error") or "")
        parts = (f"the server's health is {status}.", reason, logs)
        raise NotReady("\n".join(filter(None, parts)))
    if status not in _READY and time.monotonic() > deadline:
        late = "setup takes longer than it may; allow more seconds (a command: --setup-timeout)."
        raise NotReady("\n".join(filter(None, (late, logs))))
    return status in _READY
