"""Inference: the base and adapters answer inputs. Model thread only; takes no gradient."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from cog_adapt.runner.adapters import Adapter
from cog_adapt.runner.config import Precision, ServeMode
from cog_adapt.runner.modes import run_inference
from cog_adapt.runner.replicas import serving_replica
from cog_adapt.runner.task import Task, on_device


@dataclass(frozen=True)
class Served:
    """A module ready to answer, with the label set of its head."""

    module: nn.Module
    labels: tuple[str, ...]


class ServedAdapters:
    """The adapters that are ready in memory; the longest unused goes first.

    Args:
        template: what replicas are copied from.
        limit: how many are kept.
    """

    def __init__(self, template: nn.Module, precision: Precision, limit: int) -> None:
        self._template = template
        self._precision = precision
        self._limit = limit
        self._served: OrderedDict[str, Served] = OrderedDict()

    def get(self, key: str, make: Callable[[], Adapter]) -> Served:
        """Return the module for `key`; `make` gives the adapter if it is not ready yet."""
        if key not in self._served:
            adapter = make()
            tensors = {n: t.to(self._precision.device) for n, t in adapter.tensors.items()}
            replica = serving_replica(self._template, tensors)
            self._served[key] = Served(replica, adapter.labels)
            while len(self._served) > self._limit:
                self._served.popitem(last=False)
        self._served.move_to_end(key)
        return self._served[key]

    def __len__(self) -> int:
        """How many are ready."""
        return len(self._served)


def predict_batch(
    task: Task, served: Served, inputs: Sequence[Any], precision: Precision, serve_mode: ServeMode
) -> list[Any]:
    """Answer one batch in one inference phase; N inputs give N plain values."""
    batch = on_device(task.encode(inputs), precision.device)
    return run_inference(task.predict, served.module, precision, serve_mode, batch, served.labels)
