"""Measures the server under Ray Serve beside plain Ray Serve with a loop of peft by hand.

    python -m bench.ray_serve rivals --output docs/results/ray-rivals.json

Both are applications of one Ray node in HAProxy mode, each with one replica, and take turns in one
run. A replica's processes have core 0, the client, the proxy and Ray the rest: the rival's threads
would use a second core that this server leaves to other work. Both adapt the same MiniLM by the
same examples, LoRA layers, rank, rate, schedule and number of steps. CPU is of the replica's
processes. The answer of this server to examples has the base's answer too.

Foreseen before the first run: by one adaptation at a time both are within 10 % of each other, since
the arithmetic is the same and each stores its adapter; four at once gain neither anything on one
core. A prediction costs this server 1 to 2 ms more (two processes, records, checks). Beside four
adaptations the rival's p99 is two to five times its own: its threads do not block it, but share the
core; this server's is the longest part of a step. Losses agree within 3 %.

Found, on two cores without other load: adaptations as foreseen (.96 and .99 of the rival's), losses
as foreseen (+1.2 %), a prediction .7 ms more. Beside four adaptations the forecast failed: this
server's p99 is 121 ms, the rival's 83, since its threads take turns within a step where this server
waits for the step's end; p99 was foreseen two to five times the rival's own. Not foreseen: with 16
adapters ready the rival's replica needs 3.2 GB, this one .6 GB, since each of the rival's adapters
is a copy of the model; eight predictions at once cost this server 15 % more CPU each.
"""

import os
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from bench.ray_serve import turns
from bench.ray_serve.one_node import PORT, cpu_seconds, one_node, own_megabytes, replicas
from bench.ray_serve.one_page import publish
from bench.ray_serve.sides import RATE, ByHand, Ours, Side, examples
from bench.ray_serve.turns import QUICK, Learnt, Sizes, Turn
from bench.report import Columns, Report, Spread, arguments, interleave, ratio
from bench.serving_servers import Served

OURS, BY_HAND = "this server", "by hand"
VARIABLES = {"DEVICE": "cpu", "COG_PREDICT_TYPE_STUB": "predict.py:Predictor"}
REPLICA_CORE = {0}
_LEFT_AFTER, _TIMES_LONGER = 1.0, 6  # seconds, and steps, of the adaptation whose client leaves


def _short(spread: Spread) -> str:
    digits = 0 if spread.median >= 100 else 2
    return f"{spread.median:.{digits}f} ({spread.low:.{digits}f}–{spread.high:.{digits}f})"


COLUMNS: Columns = {
    "what": str,
    "side": str,
    "a second": _short,
    "ours / by hand": ratio,
    "median ms": _short,
    "p99 ms": _short,
    "CPU ms each": _short,
    "CPU, ours / by hand": ratio,
}


def deployed(folder: Path, sizes: Sizes) -> list[Side]:
    """Deploy both applications, and give each replica its core."""
    from ray import serve

    from bench.ray_serve import by_hand_app
    from deploy.ray.app import app
    from deploy.ray.options import Options

    made = folder / "by-hand"
    made.mkdir()
    serve.run(by_hand_app.app(made), name="hand", route_prefix="/hand")
    serve.run(app(Options(drain_seconds=0)), name="ours", route_prefix="/")
    sides: list[Side] = []
    for kind, title, application in ((Ours, OURS, "ours"), (ByHand, BY_HAND, "hand")):
        (pid,) = replicas(application)
        sides.append(kind(Served(title, PORT, pid), sizes.steps))
    for side in sides:
        side.adapt([turns.TEXT])  # the first adaptation imports and allocates
        side.served.pin(REPLICA_CORE)
    os.sched_setaffinity(0, os.sched_getaffinity(0) - REPLICA_CORE)
    return sides


def measure(sides: Sequence[Side], sizes: Sizes) -> dict[tuple[str, str], list[Turn]]:
    """Let the sides take turns at each kind of work."""
    adapters = {side.name: side.adapt([turns.TEXT]).adapter for side in sides}
    found: dict[tuple[str, str], list[Turn]] = {}
    for kind, take in turns.kinds(adapters).items():
        contestants = {side.name: partial(_turn, take, side, sizes) for side in sides}
        interleave(contestants, 1)  # warms up
        for name, each in interleave(contestants, sizes.rounds).items():
            found[kind, name] = each
    return found


def _turn(take: turns.Take, side: Side, sizes: Sizes, _round: int) -> Turn:
    return take(side, sizes)


def rows(found: Mapping[tuple[str, str], Sequence[Turn]]) -> list[dict[str, Any]]:
    """Make a row of each kind and side; ratios are to the rival, within a round."""
    made = []
    for (kind, name), side in found.items():
        rival = found[kind, BY_HAND]
        row: dict[str, Any] = {
            "what": kind,
            "side": name,
            "a second": Spread.of([turn.tally.rate for turn in side]),
            "median ms": Spread.of([turn.tally.percentile(0.5) for turn in side]),
            "p99 ms": Spread.of([turn.tally.percentile(0.99) for turn in side]),
        }
        made.append(row | _costs(side, rival if name != BY_HAND else None))
    return made


def _costs(side: Sequence[Turn], rival: Sequence[Turn] | None) -> dict[str, Spread]:
    """Return the CPU time of an answer, if it was measured, and ratios to the rival's turns."""
    costs = [each for turn in side if (each := turn.milliseconds) is not None]
    made = {"CPU ms each": Spread.of(costs)} if costs else {}
    if rival is None:
        return made
    pairs = [*zip(side, rival, strict=True)]
    made["ours / by hand"] = Spread.of([one.tally.rate / two.tally.rate for one, two in pairs])
    if costs:
        theirs = [each for turn in rival if (each := turn.milliseconds) is not None]
        ratios = [one / two for one, two in zip(costs, theirs, strict=True)]
        made["CPU, ours / by hand"] = Spread.of(ratios)
    return made


def learnt(sides: Sequence[Side], sizes: Sizes) -> dict[str, str]:
    """Compare what equal adaptations have learned."""
    found = {side.name: [Learnt.of(side, seed) for seed in range(sizes.seeds)] for side in sides}
    losses = {name: fmean(each.loss for each in some) for name, some in found.items()}
    accuracies = {name: fmean(each.accuracy for each in some) for name, some in found.items()}
    apart = losses[OURS] / losses[BY_HAND] - 1
    return {
        "loss on the examples afterwards, ours and by hand": (
            f"{losses[OURS]:.4f} and {losses[BY_HAND]:.4f} ({apart:+.1%})"
        ),
        "accuracy on other texts, ours and by hand": (
            f"{accuracies[OURS]:.3f} and {accuracies[BY_HAND]:.3f}"
        ),
    }


def beyond(sides: Sequence[Side], sizes: Sizes) -> dict[str, str]:
    """Show what one side does and the other does not."""
    steps = _TIMES_LONGER * sizes.steps
    repeats = {side.name: _repeated(side) for side in sides}
    left = {side.name: _cpu_after_leaving(side, steps) for side in sides}
    return {
        "the same adaptation again, ms, ours and by hand": _both(repeats, ".0f"),
        f"CPU s after the client of {steps} steps left, ours and by hand": _both(left, ".2f"),
    }


def _both(values: Mapping[str, float], form: str) -> str:
    return f"{values[OURS]:{form}} and {values[BY_HAND]:{form}}"


def _repeated(side: Side) -> float:
    side.adapt([turns.TEXT], seed=1)
    began = time.perf_counter()
    side.adapt([turns.TEXT], seed=1)
    return (time.perf_counter() - began) * 1000


def _cpu_after_leaving(side: Side, steps: int) -> float:
    """Return the CPU seconds that a replica uses from the moment when its client has left."""
    path, inputs = side.adaptation([turns.TEXT], next(side.seeds), steps)
    connection = side.connect()
    side.send(connection, path, inputs)
    time.sleep(_LEFT_AFTER)
    connection.close()
    left = last = cpu_seconds(side.served.pid)
    while True:  # until a second in which it does nearly nothing
        time.sleep(1.0)
        now = cpu_seconds(side.served.pid)
        if now - last < 0.1:
            return now - left
        last = now


_READING = """\
Made by `python -m bench.ray_serve rivals`, whose module says what runs where. Both sides take turns
in one run on one Ray node, one core for each replica; values have their median and range over the
rounds. *By hand*: `bench/ray_serve/by_hand.py` and `by_hand_app.py`."""


def main() -> None:
    """Measure both; write the page beside the numbers."""
    chosen = arguments(main.__doc__)
    sizes = QUICK if chosen.quick else Sizes()
    with one_node(VARIABLES, cores=4) as folder:
        sides = deployed(folder, sizes)
        before = {side.name: own_megabytes(side.served.pid) for side in sides}
        found = rows(measure(sides, sizes))
        after = {side.name: own_megabytes(side.served.pid) for side in sides}
        facts = {
            **learnt(sides, sizes),
            **beyond(sides, sizes),
            "memory of a replica after the first adaptation, MB": _both(before, ".0f"),
            "memory after all, 16 adapters ready, MB": _both(after, ".0f"),
            **vars(sizes),
            "examples": len(examples()),
            "learning rate": RATE,
        }
    report = Report("The server under Ray, and peft by hand", COLUMNS, found, facts)
    publish(report, _READING, chosen.output)


if __name__ == "__main__":
    main()
