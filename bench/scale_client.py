"""Sends adaptations and predictions to one server of `bench.scale`."""

import contextlib
import http.client
import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from bench import sets
from bench.serving_client import Tally
from bench.serving_servers import Served

_ANSWER_SECONDS = 300.0
ADAPTATIONS, PREDICTIONS, BESIDE = "adaptations", "predictions", "predictions beside adaptations"


@dataclass(frozen=True)
class Sizes:
    """The extent of a run.

    Attributes:
        rounds: turns of each server at each kind of work.
        seconds: of a turn; the requests under way then end.
        connections: requests in flight for each worker, so that batches are equally large.
        steps: of an adaptation.
        examples: of each label of an adaptation.
        kills: of a worker, in a further turn; 0: without that turn.
    """

    rounds: int = 6
    seconds: float = 20.0
    connections: int = 8
    steps: int = 10
    examples: int = 4
    kills: int = 12


QUICK = Sizes(rounds=1, seconds=1.0, connections=2, steps=1, examples=1, kills=1)


@dataclass(frozen=True)
class Turn:
    """What one server did in one turn.

    Attributes:
        tally: of the answers.
        client: CPU seconds of this process.
        front: CPU seconds of the server's front process.
    """

    tally: Tally
    client: float
    front: float

    @property
    def done(self) -> int:
        """The number of answers that succeeded, at least 1 so that a failed turn has a cost."""
        return max(1, len(self.tally.milliseconds))

    def without_others(self, workers: int, cores: int) -> float:
        """Return the rate of workers that need not share their cores with client and front."""
        left = cores - (self.client + self.front) / self.tally.seconds
        return self.tally.rate * max(1.0, workers / max(left, 1e-9))


@dataclass
class Client:
    """Sends requests to one server from several threads.

    Attributes:
        workers: of the server.
        numbers: a new one for each adaptation, so that none is known.
    """

    server: Served
    sizes: Sizes
    workers: int = 1
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def turn(self, kind: str) -> Turn:
        """Let each thread ask one request after the other for so many seconds."""
        client, front = time.process_time(), self.server.front_cpu_seconds()
        began = time.perf_counter()
        tally = Tally()
        connections = self.sizes.connections * self.workers
        with ThreadPoolExecutor(2 * connections) as pool:
            asking = [pool.submit(self._ask, self._maker(kind), tally) for _ in range(connections)]
            if kind == BESIDE:
                beside = Tally()
                maker = self._maker(ADAPTATIONS)
                asking += [pool.submit(self._ask, maker, beside) for _ in range(connections)]
            for each in asking:
                each.result()
        tally.seconds = time.perf_counter() - began
        used = time.process_time() - client, self.server.front_cpu_seconds() - front
        return Turn(tally, *used)

    def _maker(self, kind: str) -> Callable[[], Mapping[str, Any]]:
        if kind == ADAPTATIONS:
            return lambda: adaptation(next(self.numbers), self.sizes)
        return prediction

    def _ask(self, make: Callable[[], Mapping[str, Any]], tally: Tally) -> None:
        ends = time.perf_counter() + self.sizes.seconds
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, _ANSWER_SECONDS)
        with contextlib.closing(connection):
            while time.perf_counter() < ends:
                _ask_once(connection, make(), tally)


def _ask_once(
    connection: http.client.HTTPConnection, inputs: Mapping[str, Any], tally: Tally
) -> None:
    began = time.perf_counter()
    error = post(connection, inputs)
    if error is None:
        tally.milliseconds.append((time.perf_counter() - began) * 1e3)
    elif tally.milliseconds:
        tally.refused += 1
    else:
        raise RuntimeError(f"the first request has failed: {error}")


def post(connection: http.client.HTTPConnection, inputs: Mapping[str, Any]) -> str | None:
    """Send a request; return None if its prediction succeeded, else what was answered."""
    answer = answer_to(connection, inputs)
    return None if answer.get("status") == "succeeded" else json.dumps(answer)[:500]


def answer_to(
    connection: http.client.HTTPConnection, inputs: Mapping[str, Any], *, retries: int = 0
) -> dict[str, Any]:
    """Send a request; return the body of the answer."""
    body = json.dumps({"input": dict(inputs)} | ({"retries": retries} if retries else {}))
    connection.request("POST", "/predictions", body, {"Content-Type": "application/json"})
    return dict(json.loads(connection.getresponse().read()))


def prediction() -> Mapping[str, Any]:
    """Return the inputs of a prediction by the base."""
    return {"text": "The parcel never came.", "labels": sorted(sets.load("tickets").texts)}


def adaptation(number: int, sizes: Sizes) -> Mapping[str, Any]:
    """Return the inputs of an adaptation that no other number has."""
    texts = sets.load("tickets").texts
    rows = [
        {"text": text, "label": label} for label in texts for text in texts[label][: sizes.examples]
    ]
    own = {"text": "The parcel never came.", "fresh": True}
    return own | {"examples": rows, "method": "lora", "steps": sizes.steps, "seed": number}
