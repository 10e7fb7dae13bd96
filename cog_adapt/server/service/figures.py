"""What a server does now, in figures: its workers, their queues and crashes, and their numbers."""

from typing import Any

from cog_adapt.server.protocol import AskGauges, Gauges
from cog_adapt.server.service.dispatcher import Dispatcher
from cog_adapt.server.service.service import PredictionService
from cog_adapt.server.service.worker import Worker

GAUGE_SECONDS = 0.5
_IDLE = "idle"  # it starts with the first request of its kind


def figures_of(service: PredictionService) -> dict[str, Any]:
    """Return the queue, the workers, and why the records cannot be used (None: they can)."""
    workers = [
        _of_worker(worker, dispatcher)
        for dispatcher in service.dispatchers.values()
        for worker in dispatcher.workers
    ]
    queue = {"most": service.main.waiting.most}
    return {"queue": queue, "workers": workers, "records": service.records.error}


def _of_worker(worker: Worker, dispatcher: Dispatcher) -> dict[str, Any]:
    process, setup = worker.process, worker.process.setup
    is_idle = process.state == "starting" and process.may_start
    return {
        "kind": dispatcher.kind,
        "state": _IDLE if is_idle else process.state,
        "slots": worker.slots,
        "running": len(worker.running),
        "waiting": len(dispatcher.waiting),
        "crashes": process.crashes.count,
        "last_crash": process.crashes.last,
        "setup": {
            "started_at": None if is_idle else setup.started_at,
            "completed_at": setup.completed_at,
            "error": setup.error,
        },
    }


async def read_gauges(worker: Worker) -> dict[str, float]:
    """Return a worker's own numbers; none where it does not answer at once."""
    if worker.process.state != "ready":
        return {}
    try:
        answer: Gauges = await worker.pending.ask(AskGauges(), Gauges, GAUGE_SECONDS)
    except TimeoutError:
        return {}
    return answer.values
