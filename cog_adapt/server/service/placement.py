"""Chooses the worker of a prediction: where its adapter is, else where the fewest run."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence

import msgspec

from cog_adapt.server.adapter_messages import AdapterChanged
from cog_adapt.server.service.affinity import Affinity, adapter_word, read_affinity
from cog_adapt.server.service.prediction import Prediction
from cog_adapt.server.service.worker import Worker

_SLACK = 8  # a worker with an adapter may run an eighth of its slots more than the least busy one


class Placement:
    """Remembers which workers have which adapters, as far as it was seen.

    The same examples and recipe go where they are learnt at this moment. An adapter goes where it
    was used or made before, unless that worker is much busier: the adapter is then loaded by
    another worker too, so that many requests for one adapter use every device. Nothing waits for a
    worker.

    Args:
        most: the adapters and adaptations that are remembered; the longest unused goes first.
    """

    def __init__(self, most: int = 4096) -> None:
        self._most = most
        self._known: OrderedDict[tuple[str, str], dict[Worker, None]] = OrderedDict()
        self._starts = 0
        self._latest_start: dict[Worker, int] = {}

    def choose(self, prediction: Prediction, workers: Sequence[Worker]) -> Worker | None:
        """Return the worker that takes a prediction now; None if none does."""
        if len(workers) == 1:
            return workers[0] if workers[0].takes(prediction) else None
        taking = [each for each in workers if each.takes(prediction)]
        if not taking:  # which `workers` without any is, too
            return None
        affinity, fewest = _affinity_of(prediction), min(each.load for each in taking)
        warm = {each for part in affinity.parts for each in self._known.get(part, ())}

        def rank(worker: Worker) -> tuple[bool, bool, int, int]:
            load = worker.load
            is_near = worker in warm and load - fewest <= max(1, worker.slots // _SLACK)
            return (
                not _is_under_way(affinity, worker),
                not is_near,
                load,
                self._latest_start.get(worker, 0),
            )

        return min(taking, key=rank)

    def on_start(self, prediction: Prediction, worker: Worker) -> None:
        """Remember where a prediction runs."""
        self._starts += 1
        self._latest_start[worker] = self._starts
        for part in _affinity_of(prediction).parts:
            self._remember(part, worker)

    def on_changed(self, worker: Worker, report: AdapterChanged) -> None:
        """Remember where an adapter was made or changed; forget one that was removed."""
        part = report.owner, adapter_word(msgspec.json.encode(report.adapter_id))
        if report.metadata is None:
            self._known.pop(part, None)
        else:
            self._remember(part, worker)

    def on_exit(self, worker: Worker) -> None:
        """Forget a process that has ended: the next one has no adapter ready."""
        for part, workers in list(self._known.items()):
            workers.pop(worker, None)
            if not workers:
                del self._known[part]

    def _remember(self, part: tuple[str, str], worker: Worker) -> None:
        self._known.setdefault(part, {})[worker] = None
        self._known.move_to_end(part)
        if len(self._known) > self._most:
            self._known.popitem(last=False)


def _affinity_of(prediction: Prediction) -> Affinity:
    if prediction.affinity is None:
        request = prediction.request
        prediction.affinity = read_affinity(request.input, request.owner)
    return prediction.affinity


def _is_under_way(affinity: Affinity, worker: Worker) -> bool:
    """Return whether a worker learns the same examples by the same recipe now."""
    return affinity.adaptation is not None and any(
        each.affinity is not None and each.affinity.adaptation == affinity.adaptation
        for each in _on(worker)
    )


def _on(worker: Worker) -> Iterable[Prediction]:
    yield from worker.running.values()
    yield from worker.beginning.values()
