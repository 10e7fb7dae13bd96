"""Kills a worker of one server each few seconds, under the mixed load of `bench.scale`.

All requests have `retries`: none may be lost, and none may be answered wrongly.
"""

import contextlib
import http.client
import itertools
import math
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from bench.scale_client import Sizes, Turn, adaptation, answer_to, prediction
from bench.serving_client import Tally
from bench.serving_servers import Served, models_of

KILL_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 300.0
_READY_SECONDS: Final = 120.0
_RETRIES: Final = 10
_LOOK_SECONDS: Final = 0.05
_CLOSE: Final = 1e-3  # between scores: other company in a forward changes the last bits
_SHOWN: Final = 200
_FIRST_NUMBER: Final = 1_000_000  # of adaptations that no other turn has learnt
_Inputs = Mapping[str, Any]


@dataclass
class Answers:
    """The answers to requests of one kind.

    Attributes:
        tally: of their times; `refused` counts the lost requests.
        lost: why requests have no good answer, each with its count.
        wrong: those that differ from the answer without a kill.
        outputs: inputs and outputs of adaptations, which are asked for again afterwards.
    """

    tally: Tally = field(default_factory=Tally)
    lost: Counter[str] = field(default_factory=Counter)
    wrong: int = 0
    outputs: list[tuple[_Inputs, dict[str, Any]]] = field(default_factory=list)


@dataclass(frozen=True)
class KilledTurn:
    """What one server did while its workers were killed in turn.

    Attributes:
        predictions: by the base.
        adaptations: requests with examples, beside them.
        turn: the predictions, with the CPU time of client and front.
        recoveries: for each kill, the seconds until all workers were ready again.
    """

    predictions: Answers
    adaptations: Answers
    turn: Turn
    recoveries: list[float]


class KilledServer:
    """A server of this benchmark's own, whose workers it kills.

    Args:
        server: with several workers.
        sizes: of the load; the number of kills.
        is_whole: returns whether all workers are ready.
    """

    def __init__(self, server: Served, sizes: Sizes, is_whole: Callable[[], bool]) -> None:
        self._server = server
        self._sizes = sizes
        self._is_whole = is_whole
        self._numbers = itertools.count(_FIRST_NUMBER)
        self._is_over = threading.Event()

    def turn(self) -> KilledTurn:
        """Kill a worker each `KILL_SECONDS` while predictions and adaptations are asked for.

        Raises:
            TimeoutError: the workers are not ready again.
        """
        with _connection(self._server) as connection:
            right = answer_to(connection, prediction())["output"]
        predictions, adaptations = Answers(), Answers()
        began, own, front = time.perf_counter(), time.process_time(), self._front_seconds()
        with ThreadPoolExecutor(2 * self._sizes.connections) as pool:
            asking = [
                pool.submit(self._ask_on, make, answers)
                for make, answers in (
                    (prediction, predictions),
                    (self._new_adaptation, adaptations),
                )
                for _ in range(self._sizes.connections)
            ]
            try:
                recoveries = self._kill_in_turn()
            finally:
                self._is_over.set()
            for each in asking:
                each.result()
        seconds = time.perf_counter() - began
        predictions.tally.seconds = adaptations.tally.seconds = seconds
        used = time.process_time() - own, self._front_seconds() - front
        predictions.wrong = sum(not agree(output, right) for _, output in predictions.outputs)
        adaptations.wrong = self._count_wrong(adaptations)
        return KilledTurn(predictions, adaptations, Turn(predictions.tally, *used), recoveries)

    def _front_seconds(self) -> float:
        return self._server.front_cpu_seconds()

    def _new_adaptation(self) -> _Inputs:
        return adaptation(next(self._numbers), self._sizes)

    def _ask_on(self, make: Callable[[], _Inputs], answers: Answers) -> None:
        with _connection(self._server) as connection:
            while not self._is_over.is_set():
                _ask_once(connection, make(), answers)

    def _kill_in_turn(self) -> list[float]:
        """Kill; return the seconds after each kill until all workers were ready."""
        recoveries: list[float] = []
        pending: list[float] = []
        for _ in range(self._sizes.kills):
            self._look_until(time.monotonic() + KILL_SECONDS, pending, recoveries)
            self._kill_oldest()
            pending.append(time.monotonic())
        ends = time.monotonic() + _READY_SECONDS
        while pending:
            self._look_until(time.monotonic() + _LOOK_SECONDS, pending, recoveries)
            if time.monotonic() > ends:
                raise TimeoutError(f"not all workers are ready {_READY_SECONDS:g} s later")
        return recoveries

    def _look_until(self, due: float, pending: list[float], recoveries: list[float]) -> None:
        """Move kills from the pending ones to the recoveries once all workers are ready."""
        while time.monotonic() < due:
            time.sleep(_LOOK_SECONDS)
            if pending and self._is_whole():
                recoveries += [time.monotonic() - each for each in pending]
                pending.clear()

    def _kill_oldest(self) -> None:
        """Kill the worker that has lived longest, and wait until the server knows."""
        models = models_of(self._server.pid)
        if not models:
            return
        os.kill(models[0], signal.SIGKILL)
        while models[0] in models_of(self._server.pid):
            time.sleep(_LOOK_SECONDS)

    def _count_wrong(self, adaptations: Answers) -> int:
        """Count the adaptations whose kept adapter answers otherwise, or was learnt in part."""
        wrong = 0
        with _connection(self._server) as connection:
            for inputs, output in adaptations.outputs:
                asked = {"text": inputs["text"], "adapter": output["adapter"]}
                again = answer_to(connection, asked).get("output")
                is_whole = output["report"]["steps"] == self._sizes.steps
                wrong += not (is_whole and again and agree(again, output))
        return wrong


def agree(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two outputs have the same labels, and nearly the same scores."""
    pairs = zip(one["predictions"], other["predictions"], strict=True)
    return all(a["label"] == b["label"] and _are_close(a["scores"], b["scores"]) for a, b in pairs)


def _are_close(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    return one.keys() == other.keys() and all(
        math.isclose(score, other[name], abs_tol=_CLOSE) for name, score in one.items()
    )


def _ask_once(connection: http.client.HTTPConnection, inputs: _Inputs, answers: Answers) -> None:
    """Send a request; one without a good answer is lost."""
    began, answer = time.perf_counter(), dict[str, Any]()
    try:
        answer = answer_to(connection, inputs, retries=_RETRIES)
    except (OSError, http.client.HTTPException) as error:
        answer = {"error": repr(error)}
        connection.close()  # it opens again with the next request
    if answer.get("status") == "succeeded":
        answers.tally.milliseconds.append((time.perf_counter() - began) * 1e3)
        answers.outputs.append((inputs, answer["output"]))
    else:
        answers.tally.refused += 1
        answers.lost[str(answer.get("error") or answer)[:_SHOWN]] += 1


@contextlib.contextmanager
def _connection(server: Served) -> Iterator[http.client.HTTPConnection]:
    made = http.client.HTTPConnection("127.0.0.1", server.port, timeout=_ANSWER_SECONDS)
    with contextlib.closing(made):
        yield made
