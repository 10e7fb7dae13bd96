"""The predictions of a loaded model: which module answers a query, and its ticks.

Each method that ends in `ing` is a generator for the scheduler. This module knows no thread and no
caller, and takes no gradient.
"""

from collections.abc import Generator, Sequence
from typing import Any

import torch

from cog_adapt.runner.adapter_fit import check_fits
from cog_adapt.runner.adapters import Adapter
from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.device import device_memory
from cog_adapt.runner.inference import (
    Phase,
    Query,
    generate_pieces,
    options_of,
    predict_batch,
)
from cog_adapt.runner.label_tensors import finished, label_tensors
from cog_adapt.runner.loaded_base import LoadedBase, moved
from cog_adapt.runner.served_adapters import Served, ServedAdapters
from cog_adapt.runner.task import Task

_DEVICE_SHARE = 8  # an eighth of the device's memory holds adapters that are ready
_CPU = torch.device("cpu")


class Predictions:
    """Answers queries by a base and its adapters."""

    def __init__(self, task: Task, base: LoadedBase, settings: RunnerSettings) -> None:
        self.task = task
        self.base = base
        self.batch_size = settings.batch_size
        self.phase = Phase(task, base.precision, settings.serve_mode)
        self.served = _served(base, settings)

    def predicting(self, query: Query) -> Generator[None, None, list[Any]]:
        """Answer inputs, a batch a tick."""
        self.base.refuse_when_damaged()
        options = options_of(self.task, query)
        predictions: list[Any] = []
        for first in range(0, len(query.inputs), self.batch_size):
            batch = query.inputs[first : first + self.batch_size]
            served = yield from self.serving(query)
            predictions += predict_batch(self.phase, served, batch, options)
            if first + self.batch_size < len(query.inputs):
                yield None
        return predictions

    def generating(self, query: Query) -> Generator[Any, None, None]:
        """Stream the answer to inputs, a piece a tick."""
        self.base.refuse_when_damaged()
        options = options_of(self.task, query)
        served = yield from self.serving(query)
        yield from generate_pieces(self.phase, served, query.inputs, options)

    def serving(self, query: Query) -> Generator[None, None, Served]:
        """Make the module that answers a query ready, some labels a tick."""
        adapter, labels = query.adapter, query.labels
        if adapter is not None:
            return self.served.get(f"{query.owner}/{adapter.id}", lambda: self.checked(adapter))
        key = f"{query.owner}/start/{tuple(labels)!r}"
        if key not in self.served:
            made = yield from self.starting_adapter(labels)
            return self.served.get(key, lambda: made)
        return self.served.get(key, lambda: finished(self.starting_adapter(labels)))

    def starting_adapter(self, labels: Sequence[str]) -> Generator[None, None, Adapter]:
        """Make the adapter of a label set without any training, some labels a tick."""
        tensors = yield from label_tensors(self.phase, self.base.module, self.batch_size, labels)
        return Adapter(moved(tensors, _CPU), tuple(labels), "start", self.base.digest)

    def checked(self, adapter: Adapter) -> Adapter:
        """Return the adapter if it fits this base (else WeightsError)."""
        check_fits(adapter, self.base.digest, self.base.template, self.task.head)
        return adapter


def _served(base: LoadedBase, settings: RunnerSettings) -> ServedAdapters:
    device = base.precision.device
    most_bytes = settings.served_adapter_bytes or device_memory(device) // _DEVICE_SHARE
    return ServedAdapters(base.template, base.precision, settings.served_adapters, most_bytes)
