"""The workers on which the predictions of one kind run: their own, or those of the other kind."""

from collections.abc import Sequence

from cog_adapt.server.protocol import Kind
from cog_adapt.server.service.prediction import Prediction
from cog_adapt.server.service.worker import Worker

# of workers that have never served, or no longer: those first that may serve soon
_ORDER = ("ready", "crashed", "starting", "idle", "defunct", "setup failed", "stopped")
_USELESS = ("setup failed", "defunct")


class WorkerPool:
    """The workers for one kind of prediction.

    Attributes:
        kind: of the predictions.
        own: the workers of this kind, in the order of their places.
        hosts: the workers of the other kind, which run these predictions too if they can.
        is_shared: whether predictions of another kind may run on the same workers.
    """

    def __init__(self) -> None:
        self.kind: Kind = "predict"
        self.own: list[Worker] = []
        self.hosts: Sequence[Worker] = ()
        self.is_shared = False

    @property
    def is_hosted(self) -> bool:
        """Whether the workers of the other kind have the code of this kind too."""
        if not self.hosts:
            return False
        described = (worker.description for worker in self.hosts)
        return any(each is not None and each.serves_both for each in described)

    @property
    def workers(self) -> Sequence[Worker]:
        """The workers that run what waits here."""
        return self.hosts if self.is_hosted else self.own

    @property
    def all_workers(self) -> Sequence[Worker]:
        """The workers on which something of this kind may run, from now or from before."""
        return (*self.own, *self.hosts)

    @property
    def lead(self) -> Worker:
        """The worker of this kind whose state represents all: the first that serves best."""
        return min(self.own, key=lambda each: (not each.is_usable, _ORDER.index(each.state)))

    def start(self) -> None:
        """Start the workers of this kind, once; again if the setup of every worker has failed."""
        failed = [worker for worker in self.own if worker.state == "setup failed"]
        for worker in self.own:
            if worker.state == "idle" or len(failed) == len(self.own):
                worker.start()

    def owns(self, worker: Worker) -> bool:
        """Return whether a worker is of this kind."""
        return worker in self.own

    def running_on(self, worker: Worker) -> list[Prediction]:
        """Return the predictions of this kind that run on a worker."""
        if not self.is_shared:
            return list(worker.running.values())
        return [each for each in worker.running.values() if each.request.kind == self.kind]

    @property
    def count(self) -> int:
        """The number of predictions that may run at once."""
        workers = self.workers
        if len(workers) == 1:
            return workers[0].slots
        usable = [each for each in workers if each.state not in _USELESS]
        return sum(worker.slots for worker in usable or workers)

    @property
    def given_up(self) -> str | None:
        """The reason why no worker will start again soon; None if one may."""
        defunct = [worker for worker in self.workers if worker.state == "defunct"]
        if not defunct or any(worker.state not in _USELESS for worker in self.workers):
            return None
        return f"the model process has given up: {defunct[0].last_crash}"

    @property
    def is_set_up_in_vain(self) -> bool:
        """Whether the setup of every worker has failed, so that none is left."""
        return all(worker.state == "setup failed" for worker in self.workers)

    @property
    def offered(self) -> Sequence[Worker]:
        """The workers for what waits here; trainings leave each worker a slot for predictions."""
        if not self.is_hosted:
            return self.own
        return [each for each in self.hosts if each.free_slots > 1]

    @property
    def emptying(self) -> Worker | None:
        """The worker that is emptied for a prediction which must run alone: the least busy one.

        None while one runs alone: a second one begins when the first has ended.
        """
        if any(each.runs_alone for each in self.workers):
            return None
        ready = (each for each in self.workers if each.state == "ready")
        return min(ready, key=lambda each: each.load, default=None)

    def count_own(self, worker: Worker) -> int:
        """Return how many predictions of this kind run or begin on a worker."""
        if not self.is_shared:
            return worker.load
        beginning = (each.request.kind == self.kind for each in worker.beginning.values())
        return len(self.running_on(worker)) + sum(beginning)
