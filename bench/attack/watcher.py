"""The second caller: sends no-op predictions and health requests from a process of its own."""

import http.client
import json
import multiprocessing
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from typing import Any, NamedTuple

_ASK_SECONDS, _HEALTH_SECONDS = 0.1, 0.05
_PATIENCE = 120.0


class Question(NamedTuple):
    """Inputs of a prediction; `said` are its right answers, or None if any answer is right."""

    inputs: dict[str, Any]
    said: list[Any] | None = None


NO_OP = Question({"text": "no-op"})


class Sample(NamedTuple):
    """One request: its begin (monotonic), its kind, and the milliseconds until its answer."""

    began: float
    name: str
    milliseconds: float
    status: int
    wrong: bool = False


def said(content: bytes) -> list[Any]:
    """Return the labels or the texts of an answer's predictions; nothing if it failed."""
    output = json.loads(content).get("output") or {}
    predictions = output.get("predictions") or []
    return [each["label"] if isinstance(each, dict) else each for each in predictions]


class _Caller:
    """Sends requests to one server again and again.

    Args:
        address: host and port.
        key: of the API.
        question: the inputs of a prediction.
        ended: set to stop.
    """

    def __init__(self, address: str, key: str, question: Question, ended: Event) -> None:
        self._address, self._key, self._ended = address, key, ended
        self._question = question
        self._body = json.dumps({"input": question.inputs}).encode()
        self.samples: list[Sample] = []

    def repeat(self, name: str, every: float) -> None:
        """Send a request every so many seconds, or at once after a longer answer."""
        connection = http.client.HTTPConnection(self._address, timeout=_PATIENCE)
        while not self._ended.is_set():
            began = time.monotonic()
            status, content = self._ask(connection, name)
            milliseconds = (time.monotonic() - began) * 1000
            wrong = name != "healthz" and self._is_wrong(content)
            self.samples.append(Sample(began, name, milliseconds, status, wrong))
            time.sleep(max(0.0, every - milliseconds / 1000))

    def _is_wrong(self, content: bytes) -> bool:
        return self._question.said is not None and said(content) != self._question.said

    def _ask(self, connection: http.client.HTTPConnection, name: str) -> tuple[int, bytes]:
        if name == "healthz":
            connection.request("GET", "/healthz")
        else:
            headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
            connection.request("POST", "/predictions", self._body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()


def _watch(
    address: str, key: str, question: Question, ended: Event, results: "Connection[Any, Any]"
) -> None:
    caller = _Caller(address, key, question, ended)
    threads = [
        threading.Thread(target=caller.repeat, args=each)
        for each in (("no-op", _ASK_SECONDS), ("healthz", _HEALTH_SECONDS))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results.send(caller.samples)


@contextmanager
def watched(address: str, key: str, question: Question = NO_OP) -> Iterator[list[Sample]]:
    """Send requests until the block ends; the yielded list is filled then."""
    context = multiprocessing.get_context("spawn")
    ended, (ours, theirs) = context.Event(), context.Pipe(duplex=False)
    process = context.Process(target=_watch, args=(address, key, question, ended, theirs))
    process.start()
    samples: list[Sample] = []
    try:
        yield samples
    finally:
        ended.set()
        if ours.poll(_PATIENCE):
            samples += ours.recv()
        process.join(_PATIENCE)
