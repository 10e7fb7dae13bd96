"""What a runner knows of its adaptations: those under way, and what each of them depends on."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.devices.device import machine_memory
from cog_adapt.runner.known.adaptation_key import input_digests, origin_of
from cog_adapt.runner.known.feature_cache import ROW, FeatureCache
from cog_adapt.runner.known.receipt import Signer
from cog_adapt.runner.known.recent_requests import RecentRequests
from cog_adapt.runner.scheduling.shared_runs import SharedRuns
from cog_adapt.runner.storage.metadata import versions
from cog_adapt.runner.storage.store import AdapterStore
from cog_adapt.runner.task import Batch, Task

_MEMORY_SHARE = 64
_LARGEST_ROW = 2**16


class Knowledge:
    """What a runner knows.

    Args:
        task: what the user wrote.
        model: what its numbers depend on: the base's digest, device and precision.
        settings: which key signs, and how many bytes of features are kept.
        store: features go with the adapter that brought them.

    Attributes:
        runs: the adaptations that callers share.
        origin: digest of what every adaptation here depends on; None where the task has no source.
        recent: the last requests that were read.
        signer: of receipts; None without RECEIPT_KEY.
        features: of recent examples.

    Raises:
        ConfigError: the key cannot be used.
    """

    def __init__(
        self, task: Task, model: str, settings: RunnerSettings, store: AdapterStore
    ) -> None:
        self.runs = SharedRuns()
        self.origin = origin_of(task, model, str(sorted(versions().items())))
        self.recent = RecentRequests()
        self.signer = Signer(Path(settings.receipt_key)) if settings.receipt_key else None
        self.features = FeatureCache(settings.feature_bytes or machine_memory() // _MEMORY_SHARE)
        self.counts = {"adaptations_run": 0, "adaptations_known": 0}
        self._decisions = store.decisions
        store.watch(self._on_change)
        store.decisions.watch(lambda owner, decision: self.recent.forget(owner, decision.key))

    def forget(self, owner: str, key: str | None = None) -> None:
        """Drop what was decided for a key of an owner's, and its features; None: all of them."""
        self._decisions.drop_key(owner, key)
        self.features.forget(owner, key)

    def kept_of(self, owner: str) -> "OwnInputs":
        """Return what is kept of an owner's examples."""
        return OwnInputs(self.features, owner)

    def close(self) -> None:
        """End the threads."""
        self.runs.close()

    def gauges(self) -> dict[str, float]:
        """Numbers for a server's metrics."""
        return self.features.gauges() | {name: float(n) for name, n in self.counts.items()}

    def _on_change(self, owner: str, adapter_id: str, known: object) -> None:
        if known is None:
            self.features.forget(owner, adapter_id)


class OwnInputs:
    """What is kept of one owner's inputs, for one adaptation: features, and encoded rows.

    Attributes:
        found: how many inputs had features.
    """

    def __init__(self, cache: FeatureCache, owner: str) -> None:
        self._cache, self._owner = cache, owner
        self.found = 0

    def get(self, inputs: Sequence[Any]) -> list[Tensor | None]:
        """Return each input's row (D,); None where there is none."""
        found = self._cache.get(self._owner, input_digests(inputs))
        rows = [row if isinstance(row, Tensor) else None for row in found]
        self.found += sum(row is not None for row in rows)
        return rows

    def put(self, inputs: Sequence[Any], rows: Sequence[Tensor]) -> None:
        """Keep each input's row."""
        self._cache.put(self._owner, input_digests(inputs), [row.clone() for row in rows])

    def get_row(self, value: Any) -> Batch | None:  # noqa: ANN401 - the task's own
        """Return an input's tensors, without a batch axis; None where there are none."""
        (found,) = self._cache.get(self._owner, input_digests([value]), ROW)
        return None if found is None or isinstance(found, Tensor) else {**found}

    def put_row(self, value: Any, row: Batch) -> None:  # noqa: ANN401
        """Keep an input's tensors, unless they are large: pictures would push features out."""
        if sum(tensor.nbytes for tensor in row.values()) <= _LARGEST_ROW:
            own = {name: tensor.clone() for name, tensor in row.items()}
            self._cache.put(self._owner, input_digests([value]), [own], ROW)
