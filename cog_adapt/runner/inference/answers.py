"""Inference: the base and adapters answer inputs. Model thread only; takes no gradient."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from cog_adapt.runner.errors import InputError
from cog_adapt.runner.inference.served_adapters import ReadyAdapter
from cog_adapt.runner.modules.adapters import Adapter
from cog_adapt.runner.modules.blend import Blend
from cog_adapt.runner.task.decoding import encoded
from cog_adapt.runner.task.input_sizes import portions
from cog_adapt.runner.task.task import Batch, Task, on_device
from gradient_check.phases.modes import run_inference
from gradient_check.phases.precision import Precision, ServeMode


@dataclass(frozen=True)
class Query:
    """The inputs of one question to the model.

    Attributes:
        inputs: in the form that the task encodes.
        adapter: of this base; None asks the base.
        labels: for a task with labels and no adapter: the label names to score.
        options: of the class of `Task.options`; None takes the task's.
        owner: the asker; work prepared for one owner must not make another's answers faster.
        deterministic: whether it runs alone, in ticks that depend on its inputs alone, so that an
            equal question has an equal answer bit for bit, whatever runs beside it.
        blend: how strongly the adapter's LoRA pairs count, and those of a second one.
    """

    inputs: Sequence[Any]
    adapter: Adapter | None = None
    labels: Sequence[str] = ()
    options: Any = None
    owner: str = ""
    deterministic: bool = False
    blend: Blend = Blend()

    @property
    def blended(self) -> "Query":
        """The same query to the adapter that its blend makes."""
        return replace(self, adapter=self.blend.of(self.adapter), blend=Blend())


@dataclass(frozen=True)
class Phase:
    """The settings of inference on a model.

    Attributes:
        task: of the user.
        precision: device and compute dtype.
        serve_mode: `inference_mode` or `no_grad`.
    """

    task: Task
    precision: Precision
    serve_mode: ServeMode


def options_of(task: Task, query: Query) -> Any:  # noqa: ANN401 - the task's own class
    """Return the query's options, else the task's (InputError if the class differs)."""
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
    """Find the inputs that the task cuts, a batch a tick: tokenizing takes time."""
    found: list[int] = []
    for some in portions(inputs, batch_size):
        found += [some.start + position for position in task.shortened(inputs[some])]
        if some.stop < len(inputs):
            yield None
    return found


def predict_batch(
    phase: Phase,
    served: ReadyAdapter,
    batch: Batch,
    options: Any,  # noqa: ANN401 - the task's own class
) -> list[Any]:
    """Answer one encoded batch in one inference phase; N rows give N plain values."""
    return run_inference(
        phase.task.predict,
        served.module,
        phase.precision,
        phase.serve_mode,
        on_device(batch, phase.precision.device),
        served.labels,
        options,
    )


def generate_pieces(
    phase: Phase,
    served: ReadyAdapter,
    inputs: Sequence[Any],
    options: Any,  # noqa: ANN401 - the task's own class
) -> Generator[Any, None, None]:
    """Yield the pieces of a streamed output; each is made in an inference phase of its own."""
    task = phase.task
    batch = on_device(encoded(task, inputs), phase.precision.device)

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
    """A task's iterator, wrapped so that its body runs only inside a phase."""

    pieces: Iterator[Any]

    def close(self) -> None:
        """Release the iterator's memory, such as a cache of keys and values."""
        if isinstance(self.pieces, Generator):
            self.pieces.close()


def _next_piece(_module: nn.Module, steps: _Steps) -> Any:  # noqa: ANN401 - any plain value
    return next(steps.pieces, _END)
