"""Runs a prediction or training on a server, and yields its events.

The events are the same (name, data) for every server, whatever it can do: `queued`, `start`,
`log`, `metric`, `output`, and at last `completed` with the final object.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx2

from cog_adapt.server.command.client import Client, content, refusal
from cog_adapt.server.errors import UnavailableError
from cog_adapt.server.protocol import Kind

Event = tuple[str, dict[str, Any]]
_POLL = 0.5  # s between requests for a record after its stream broke off
_FINAL = ("succeeded", "failed", "canceled")


@dataclass(frozen=True)
class RunRequest:
    """The prediction or training to run.

    Attributes:
        kind: a prediction or a training.
        prediction_id: chosen by this client, so that it can cancel the run from the start.
        inputs: the inputs in the types of the schema.
        is_streaming: whether the server streams the run in the answer to POST.
    """

    kind: Kind
    prediction_id: str
    inputs: dict[str, Any]
    is_streaming: bool

    @property
    def collection(self) -> str:
        """The path of all runs of this kind."""
        return "/predictions" if self.kind == "predict" else "/trainings"

    @property
    def path(self) -> str:
        """The path of this run."""
        return f"{self.collection}/{self.prediction_id}"


def follow(client: Client, run: RunRequest) -> Iterator[Event]:
    """Run it, and yield each event as it happens; the last event is `completed`.

    Raises:
        InputError: the server refuses the inputs.
        UnavailableError: the server refuses the run, or cannot be reached any more.
    """
    for name, data in _events(client, run):
        yield name, data
        if name == "completed":
            return
    # The stream ended early, for instance because this reader was too slow. The run continues.
    yield "completed", _final_record(client, run)


def cancel(client: Client, run: RunRequest) -> bool:
    """Cancel the run. Return False if the server does not know it (yet)."""
    try:
        return client.request("POST", f"{run.path}/cancel").status_code == 200
    except UnavailableError:
        return False


def _events(client: Client, run: RunRequest) -> Iterator[Event]:
    if run.is_streaming:
        return _answer(client, run, {"Accept": "text/event-stream"})
    if _has_events(client, run):
        return _start_and_follow(client, run)
    return _answer(client, run, {})


def _has_events(client: Client, run: RunRequest) -> bool:
    """Return whether the server streams the events of any run; Cog's has no such path.

    Ask before starting the run: without events, only the answer to POST tells the run's end.
    """
    response = client.request("GET", f"{run.path}/events")
    return response.status_code == 404 and "json" in response.headers.get("content-type", "")


def _answer(client: Client, run: RunRequest, headers: dict[str, str]) -> Iterator[Event]:
    body = {"id": run.prediction_id, "input": run.inputs}
    with client.stream("POST", run.collection, body=body, headers=headers) as response:
        if _is_stream(response):
            yield from _read(response)
            return
        response.read()
        final = content(response)
        yield "log", {"data": final.get("logs") or ""}
        yield "completed", final


def _start_and_follow(client: Client, run: RunRequest) -> Iterator[Event]:
    body = {"id": run.prediction_id, "input": run.inputs}
    content(client.request("POST", run.collection, body=body, headers={"Prefer": "respond-async"}))
    with client.stream("GET", f"{run.path}/events") as response:
        if not _is_stream(response):
            response.read()
            raise refusal(response)
        yield from _read(response)


def _is_stream(response: httpx2.Response) -> bool:
    return response.headers.get("content-type", "").startswith("text/event-stream")


def _read(response: httpx2.Response) -> Iterator[Event]:
    # outputs may contain files of any size
    for event in httpx2.EventSource(response, max_event_size=None):
        data = event.json()
        if isinstance(data, dict):
            yield event.event, data


def _final_record(client: Client, run: RunRequest) -> dict[str, Any]:
    """Return the final object of a run whose stream ended early."""
    while True:
        response = client.request("GET", run.path)
        if response.status_code == 404:
            raise UnavailableError(f"the stream of {run.prediction_id} broke off before its end.")
        record = content(response)
        if record.get("status") in _FINAL:
            return record
        time.sleep(_POLL)
