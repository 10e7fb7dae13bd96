"""Names the row whose example the task's `loss` cannot compute."""

from collections.abc import Callable, Generator
from typing import TypeVar

import torch

from cog_adapt.runner.adaptation.start import Start, example_loss, prepare_examples
from cog_adapt.runner.data.row import brief
from cog_adapt.runner.errors import RunnerError, TaskError
from cog_adapt.runner.task.errors import hook_of, named
from cog_adapt.runner.task.task import Task
from gradient_check.phases.memory import is_out_of_memory
from gradient_check.phases.modes import run_inference
from gradient_check.phases.replicas import serving_replica

P = TypeVar("P")
T = TypeVar("T")
_MOST_ROWS = 1_000  # a forward each, a tick each


def naming_row(
    work: Generator[P, None, T],
    *,
    again: Callable[[], Generator[None, None, Start]],
    task: Task,
    device: torch.device,
) -> Generator[P | None, None, T]:
    """Run an adaptation; an error of the task's loss names the row that raises it.

    Args:
        work: the adaptation.
        again: prepares its start once more.
        task: the task.
        device: where its loss runs.
    """
    try:
        return (yield from work)
    except Exception as error:
        if not _may_be_of_row(task, device, error):
            raise
        explained = yield from _with_row((yield from again()), error)
        if explained is error:
            raise
        raise explained from error


def _may_be_of_row(task: Task, device: torch.device, error: Exception) -> bool:
    """Return whether an error may be that of one example's loss.

    On another device than a CPU such an error is late, or the device's last.
    """
    is_own = not isinstance(error, RunnerError) and not is_out_of_memory(error)
    return is_own and device.type == "cpu" and hook_of(task, error) == "loss"


def _with_row(start: Start, error: Exception) -> Generator[None, None, Exception]:
    """Return an error that names the first row that raises it alone.

    If every row raises it, the row is not the cause, and the error itself is returned.
    """
    trained, data, precision = start.trained, start.data, start.training.precision
    replica = serving_replica(trained.template, trained.tensors, trained.scales)
    faulty = 0
    has_sound = False
    for number, example in enumerate(data.examples[:_MOST_ROWS], 1):
        yield None
        try:
            pair = prepare_examples(start, [example])
            run_inference(example_loss(start.task), replica, precision, "no_grad", pair)
            has_sound = True
        except type(error):
            faulty = faulty or number
        if faulty and has_sound:
            target = brief(data.examples[faulty - 1].target)
            return TaskError(f"row {faulty} (target {target}): {named(start.task, error)}")
    return error
