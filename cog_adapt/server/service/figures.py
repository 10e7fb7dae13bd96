"""Figures of the server: its workers, their queues and crashes, and their own numbers."""

from typing import Any

from cog_adapt.server.service.dispatcher import Dispatcher
from cog_adapt.server.service.service import PredictionService
from cog_adapt.server.service.worker import Worker


def figures_of(service: PredictionService) -> dict[str, Any]:
    """Return the queue, the workers, and why the records are unusable (None: they work)."""
    workers = [
        _of_worker(worker, dispatcher)
        for dispatcher in service.dispatchers.values()
        for worker in dispatcher.workers
    ]
    queue = {"most": service.main.waiting.most}
    return {"queue": queue, "workers": workers, "records": service.records.error}


def _of_worker(worker: Worker, dispatcher: Dispatcher) -> dict[str, Any]:
    place = {"worker": worker.place.name, "device": worker.place.device}
    return {
        "kind": dispatcher.kind,
        **(place if worker.place.name else {}),
        "state": worker.state,
        "slots": worker.slots,
        "running": len(worker.running),
        "waiting": len(dispatcher.waiting),
        "crashes": worker.crashes,
        "last_crash": worker.last_crash,
        "setup": {
            "started_at": None if worker.state == "idle" else worker.setup.started_at,
            "completed_at": worker.setup.completed_at,
            "error": worker.setup.error,
        },
    }
