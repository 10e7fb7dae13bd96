"""The runner's caches of adaptations: runs in progress, keys of finished ones, kept examples."""

from pathlib import Path
from typing import Any

from cog_adapt.machine import memory_bytes
from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.known.adaptation_key import origin_of
from cog_adapt.runner.known.adaptation_statistics import AdaptationStatistics
from cog_adapt.runner.known.kept_examples import KeptExamples
from cog_adapt.runner.known.receipt import Signer
from cog_adapt.runner.known.recent_requests import RecentRequests
from cog_adapt.runner.scheduling.claims import Claims
from cog_adapt.runner.scheduling.shared_runs import SharedRuns
from cog_adapt.runner.storage.metadata import versions
from cog_adapt.runner.storage.store import AdapterStore
from cog_adapt.runner.task.task import Task
from cog_adapt.shared_settings import share_of

_PART_OF_MEMORY = 64


class AdaptationCache:
    """The caches of one runner.

    Args:
        task: of the user.
        model: the base's digest, the device and the precision.
        settings: the key that signs receipts, and the bytes of examples that are kept.
        store: its changes remove cached entries together with their adapter.

    Attributes:
        runs: the adaptations that callers share.
        origin: digest of what every adaptation here depends on; None: the task has no source.
        recent: the last requests that were read.
        signer: of receipts; None without RECEIPT_KEY.
        kept: features and encoded inputs of recent examples.
        statistics: of the adaptations that ran.
        claims: how equal adaptations of several processes run once; None: each process runs its.

    Raises:
        ConfigError: the key cannot be used.
    """

    def __init__(
        self, task: Task, model: str, settings: RunnerSettings, store: AdapterStore
    ) -> None:
        self.runs = SharedRuns()
        self.claims: Claims | None = None
        self.origin = origin_of(task, model, str(sorted(versions().items())))
        self.recent = RecentRequests()
        self.signer = Signer(Path(settings.receipt_key)) if settings.receipt_key else None
        own_memory = share_of(memory_bytes(), settings.memory_share)
        most_bytes = settings.feature_bytes or own_memory // _PART_OF_MEMORY
        self.kept = KeptExamples(most_bytes, settings.owner_share)
        self.statistics = AdaptationStatistics()
        self.counts = {"adaptations_run": 0, "adaptations_known": 0}
        self._decisions = store.decisions
        store.watch(self._on_change)
        store.decisions.watch(lambda owner, decision: self.recent.forget(owner, decision.key))

    def forget(self, owner: str, key: str | None = None) -> None:
        """Drop an owner's decisions and features for a key; None: for all keys."""
        self._decisions.drop_key(owner, key)
        self.kept.forget(owner, key)

    def close(self) -> None:
        """End the threads."""
        self.runs.close()

    def gauges(self) -> dict[str, Any]:
        """Return numbers and histograms for a server's metrics."""
        counts = {name: float(n) for name, n in self.counts.items()}
        return {**self.kept.gauges(), **counts, **self.statistics.gauges()}

    def _on_change(self, owner: str, adapter_id: str, known: object) -> None:
        if known is None:
            self.kept.forget(owner, adapter_id)
