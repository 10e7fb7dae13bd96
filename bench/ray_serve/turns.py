"""One turn of one side: adaptations, predictions, or predictions beside adaptations."""

import json
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import log

from bench.ray_serve.one_node import cpu_seconds
from bench.ray_serve.sides import Side, examples, tested
from bench.serving_client import Tally, ask_for_a_while, to_request

TEXT = "The parcel never came."


@dataclass(frozen=True)
class Sizes:
    """The extent of a run.

    Attributes:
        rounds: turns of each side at each kind of work.
        adaptations: of a turn.
        seconds: of a turn of predictions.
        beside: seconds of a turn of predictions beside adaptations.
        steps: of an adaptation.
        seeds: adaptations whose losses and accuracies are compared.
    """

    rounds: int = 5
    adaptations: int = 8
    seconds: float = 2.0
    beside: float = 6.0
    steps: int = 10
    seeds: int = 3


QUICK = Sizes(rounds=1, adaptations=2, seconds=0.3, beside=1.0, steps=2, seeds=1)


@dataclass(frozen=True)
class Turn:
    """What one side did in one turn.

    Attributes:
        tally: of the answers.
        cpu: seconds of the replica's processes; None: they had other work too.
    """

    tally: Tally
    cpu: float | None

    @property
    def milliseconds(self) -> float | None:
        """CPU milliseconds of an answer."""
        return None if self.cpu is None else self.cpu * 1000 / len(self.tally.milliseconds)


Take = Callable[[Side, Sizes], Turn]


def adaptations(side: Side, sizes: Sizes, at_once: int) -> Turn:
    """Adapt several times, each answer with one text."""
    cpu = cpu_seconds(side.served.pid)
    began = time.perf_counter()
    with ThreadPoolExecutor(at_once) as pool:
        taken = [pool.submit(_timed_adaptation, side) for _ in range(sizes.adaptations)]
        milliseconds = [each.result() for each in taken]
    tally = Tally(milliseconds, seconds=time.perf_counter() - began)
    return Turn(tally, cpu_seconds(side.served.pid) - cpu)


def _timed_adaptation(side: Side) -> float:
    began = time.perf_counter()
    side.adapt([TEXT])
    return (time.perf_counter() - began) * 1000


def predictions(side: Side, sizes: Sizes, at_once: int, adapter: str = "") -> Turn:
    """Ask for a while, by an adapter or by the base."""
    cpu = cpu_seconds(side.served.pid)
    tally = _ask(side, adapter, at_once, sizes.seconds)
    return Turn(tally, cpu_seconds(side.served.pid) - cpu)


def beside_adaptations(side: Side, sizes: Sizes, at_once: int, adapter: str) -> Turn:
    """Ask one prediction after the other, while so many adaptations are under way."""
    is_over = threading.Event()

    def adapt() -> None:
        while not is_over.is_set():
            side.adapt([TEXT])

    with ThreadPoolExecutor(at_once) as pool:
        working = [pool.submit(adapt) for _ in range(at_once)]
        tally = _ask(side, adapter, 1, sizes.beside)
        is_over.set()
        for each in working:
            each.result()
    return Turn(tally, None)


def _ask(side: Side, adapter: str, at_once: int, seconds: float) -> Tally:
    path, inputs = side.prediction([TEXT], adapter)
    request = to_request(path, json.dumps(inputs).encode(), {})
    tally = ask_for_a_while(side.served.port, request, connections=at_once, seconds=seconds)
    if not tally.milliseconds or tally.refused:
        raise RuntimeError(f"{side.name} refused {tally.refused} predictions")
    return tally


def kinds(adapters: Mapping[str, str]) -> dict[str, Take]:
    """Return the kinds of work.

    Args:
        adapters: one of each side, by its name.
    """
    return {
        "adaptations, 1 at once": lambda side, sizes: adaptations(side, sizes, 1),
        "adaptations, 4 at once": lambda side, sizes: adaptations(side, sizes, 4),
        "predictions of the base, 1 at once": lambda side, sizes: predictions(side, sizes, 1),
        "predictions by an adapter, 1 at once": lambda side, sizes: predictions(
            side, sizes, 1, adapters[side.name]
        ),
        "predictions by an adapter, 8 at once": lambda side, sizes: predictions(
            side, sizes, 8, adapters[side.name]
        ),
        "predictions by an adapter, 1 at once, beside 4 adaptations": lambda side, sizes: (
            beside_adaptations(side, sizes, 4, adapters[side.name])
        ),
    }


@dataclass(frozen=True)
class Learnt:
    """How well an adaptation learned: both by the served answers, without dropout.

    Attributes:
        loss: the mean negative log-probability of the examples' labels, in nats.
        accuracy: the share of texts not seen in the examples that got their label.
    """

    loss: float
    accuracy: float

    @classmethod
    def of(cls, side: Side, seed: int) -> "Learnt":
        """Adapt, and ask by the adapter."""
        adapter = side.adapt([TEXT], seed).adapter
        seen, new = examples(), tested()
        scores = side.predict([row["text"] for row in seen], adapter).scores
        loss = -sum(log(s[row["label"]]) for s, row in zip(scores, seen, strict=True)) / len(seen)
        answers = side.predict([row["text"] for row in new], adapter).scores
        hits = sum(
            max(s, key=lambda label: s[label]) == row["label"]
            for s, row in zip(answers, new, strict=True)
        )
        return cls(loss, hits / len(new))
