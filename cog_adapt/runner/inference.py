"""Inference: the base and adapters answer inputs. Model thread only; takes no gradient."""

from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from cog_adapt.runner.adapters import Adapter
from cog_adapt.runner.config import Precision, ServeMode
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.modes import run_inference
from cog_adapt.runner.replicas import serving_replica
from cog_adapt.runner.task import Task, on_device


@dataclass(frozen=True)
class Query:
    """What the model is asked.

    Attributes:
        inputs: what the task encodes.
        adapter: of this base; None asks the base.
        labels: for a task with labels and no adapter: the label names to score.
        options: of the class of `Task.options`; None takes the task's.
        owner: who asks; what is ready for one owner must not make another's answers faster.
    """

    inputs: Sequence[Any]
    adapter: Adapter | None = None
    labels: Sequence[str] = ()
    options: Any = None
    owner: str = ""


@dataclass(frozen=True)
class Served:
    """A module ready to answer, with the label set of its head; `bytes` are its own tensors'."""

    module: nn.Module
    labels: tuple[str, ...]
    id: str = ""
    bytes: int = 0


class ServedAdapters:
    """The adapters that are ready on the device; the longest unused goes first.

    Args:
        template: what replicas are copied from.
        limit: how many are kept.
        most_bytes: of their tensors; the one that is asked for is kept, whatever it has.
    """

    def __init__(
        self, template: nn.Module, precision: Precision, limit: int, most_bytes: int
    ) -> None:
        self._template = template
        self._precision = precision
        self._limit = limit
        self._most_bytes = most_bytes
        self._served: OrderedDict[str, Served] = OrderedDict()
        self.bytes = 0
        self.hits = 0
        self.misses = 0

    def get(self, key: str, make: Callable[[], Adapter]) -> Served:
        """Return the module for `key`; `make` gives the adapter where it is not ready yet."""
        if key in self._served:
            self.hits += 1
            self._served.move_to_end(key)
            return self._served[key]
        self.misses += 1
        adapter = make()
        tensors = {n: t.to(self._precision.device) for n, t in adapter.tensors.items()}
        while self._served and self._is_full(adapter.nbytes):
            self._drop(next(iter(self._served)))
        replica = serving_replica(self._template, tensors, adapter.scales)
        self._served[key] = Served(replica, adapter.labels, adapter.id, adapter.nbytes)
        self.bytes += adapter.nbytes
        return self._served[key]

    def __contains__(self, key: str) -> bool:
        """Return whether one is ready."""
        return key in self._served

    def forget(self, adapter_id: str) -> None:
        """Let an adapter go, whoever asked for it."""
        for key in [key for key, served in self._served.items() if served.id == adapter_id]:
            self._drop(key)

    def gauges(self) -> dict[str, float]:
        """Numbers for a server's metrics."""
        return {
            "adapter_cache_entries": float(len(self)),
            "adapters_device_bytes": float(self.bytes),
            "adapters_device_hits": float(self.hits),
            "adapters_device_misses": float(self.misses),
        }

    def _is_full(self, more: int) -> bool:
        return len(self._served) >= self._limit or self.bytes + more > self._most_bytes

    def _drop(self, key: str) -> None:
        self.bytes -= self._served.pop(key).bytes

    def __len__(self) -> int:
        """Count those that are ready."""
        return len(self._served)


@dataclass(frozen=True)
class Phase:
    """How inference runs on a model.

    Attributes:
        task: what the user wrote.
        precision: device and compute dtype.
        serve_mode: `inference_mode` or `no_grad`.
    """

    task: Task
    precision: Precision
    serve_mode: ServeMode


def options_of(task: Task, query: Query) -> Any:  # noqa: ANN401 - the task's own class
    """Return the query's options, else the task's (InputError where the class is another)."""
    own = task.options
    if query.options is None:
        return own
    if type(query.options) is not type(own):
        raise InputError(
            f"options are {type(query.options).__name__}; {type(task).__name__} takes "
            f"{type(own).__name__}. Send those."
        )
    return query.options


def find_shortened(
    task: Task, inputs: Sequence[Any], batch_size: int
) -> Generator[None, None, list[int]]:
    """Find the inputs that the task cuts, a batch a tick: a tokenizer takes its time."""
    found: list[int] = []
    for first in range(0, len(inputs), batch_size):
        batch = inputs[first : first + batch_size]
        found += [first + position for position in task.shortened(batch)]
        if first + batch_size < len(inputs):
            yield None
    return found


def predict_batch(
    phase: Phase,
    served: Served,
    inputs: Sequence[Any],
    options: Any,  # noqa: ANN401 - the task's own class
) -> list[Any]:
    """Answer one batch in one inference phase; N inputs give N plain values."""
    batch = on_device(phase.task.encode(inputs), phase.precision.device)
    return run_inference(
        phase.task.predict,
        served.module,
        phase.precision,
        phase.serve_mode,
        batch,
        served.labels,
        options,
    )


def generate_pieces(
    phase: Phase,
    served: Served,
    inputs: Sequence[Any],
    options: Any,  # noqa: ANN401 - the task's own class
) -> Generator[Any, None, None]:
    """Yield the pieces of a streamed output; each is made in an inference phase of its own."""
    task = phase.task
    batch = on_device(task.encode(inputs), phase.precision.device)

    def begun(module: nn.Module) -> _Steps:
        return _Steps(iter(task.generate(module, batch, options)))

    steps = run_inference(begun, served.module, phase.precision, phase.serve_mode)
    try:
        while (
            piece := run_inference(
                _next_piece, served.module, phase.precision, phase.serve_mode, steps
            )
        ) is not _END:
            yield piece
    finally:
        steps.close()


_END = object()


@dataclass(frozen=True)
class _Steps:
    """A task's iterator, held so that its body runs inside a phase only."""

    pieces: Iterator[Any]

    def close(self) -> None:
        """Drop what the iterator holds, a cache of keys and values say."""
        if isinstance(self.pieces, Generator):
            self.pieces.close()


def _next_piece(_module: nn.Module, steps: _Steps) -> Any:  # noqa: ANN401 - any plain value
    return next(steps.pieces, _END)
