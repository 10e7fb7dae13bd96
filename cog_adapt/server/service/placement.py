"""Chooses the worker of a prediction: where its adapter is, else where the fewest run."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence

import msgspec

from cog_adapt.server.adapter_messages import AdapterChanged
from cog_adapt.server.service.prediction import Prediction
from cog_adapt.server.service.wish import Wish, adapter_word, read_wish
from cog_adapt.server.service.worker import Worker

_MOST_KNOWN = 4096
_SLACK = 8  # a worker with an adapter may run an eighth of its slots more than the least busy one


class Placement:
    """Remembers which workers have which adapters, as far as it was seen.

    The same examples go where they are learnt at this moment. An adapter goes where it was used or
    made before, unless that worker is much busier: the adapter is then loaded by another worker
    too, so that many requests for one adapter use every device. Nothing waits for a worker.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], dict[Worker, None]] = OrderedDict()
        self._starts = 0
        self._latest_start: dict[Worker, int] = {}

    def choose(self, prediction: Prediction, workers: Sequence[Worker]) -> Worker | None:
        """Return the worker that takes a prediction now; None if none does."""
        if len(workers) == 1:
            return workers[0] if workers[0].takes(prediction) else None
        taking = [each for each in workers if each.takes(prediction)]
        if not taking:
            return None
        wish, fewest = _wish_of(prediction), min(map(_load, taking))
        warm = {each for part in wish.parts for each in self._known.get(part, ())}

        def rank(worker: Worker) -> tuple[bool, bool, int, int]:
            load = _load(worker)
            is_near = worker in warm and load - fewest <= max(1, worker.slots // _SLACK)
            return (
                not _is_under_way(wish, worker),
                not is_near,
                load,
                self._latest_start.get(worker, 0),
            )

        return min(taking, key=rank)

    def on_start(self, prediction: Prediction, worker: Worker) -> None:
        """Remember where a prediction runs."""
        self._starts += 1
        self._latest_start[worker] = self._starts
        for part in _wish_of(prediction).parts:
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
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)


def _wish_of(prediction: Prediction) -> Wish:
    if prediction.wish is None:
        request = prediction.request
        prediction.wish = read_wish(request.input, request.owner)
    return prediction.wish


def _load(worker: Worker) -> int:
    return len(worker.running) + len(worker.beginning)


def _is_under_way(wish: Wish, worker: Worker) -> bool:
    """Return whether a worker learns the same examples now."""
    return wish.examples is not None and any(
        each.wish is not None and each.wish.examples == wish.examples for each in _on(worker)
    )


def _on(worker: Worker) -> Iterable[Prediction]:
    yield from worker.running.values()
    yield from worker.beginning.values()
