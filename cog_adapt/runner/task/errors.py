"""Adds the name of the task's function to its errors: a caller sees only the message.

The runner's own errors stay as they are, and a device's error is not the task's.
"""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType

import torch

from cog_adapt.runner.errors import RunnerError, TaskError
from cog_adapt.runner.task.task import Task

_OTHERS = (RunnerError, torch.AcceleratorError, torch.OutOfMemoryError)


def named(task: Task, error: BaseException) -> BaseException:
    """Return the error, or one that names the task's function that raised it."""
    if isinstance(error, _OTHERS) or not isinstance(error, Exception):
        return error
    hook = hook_of(task, error)
    if not hook:
        return error
    found = TaskError(
        f"{type(task).__name__}.{hook} raised {_said(error)}. Send inputs that it can read, or "
        "correct it: the traceback shows the line."
    )
    found.__cause__ = error
    return found


@contextmanager
def naming(task: Task) -> Iterator[None]:
    """Raise the task's errors inside with the name of the function."""
    try:
        yield
    except Exception as error:
        found = named(task, error)
        if found is error:
            raise
        raise found from error


def _said(error: Exception) -> str:
    kind = type(error).__name__
    try:
        text = str(error).strip()
    except Exception:  # noqa: BLE001 - the task's own class may raise anything
        return kind
    return f"{kind}: {text.rstrip('.')}" if text else kind


def hook_of(task: Task, error: BaseException) -> str:
    """Return the name of the first of the task's functions in the error's traceback."""
    codes = _codes_of(type(task))
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code not in codes:
        trace = trace.tb_next
    return codes[trace.tb_frame.f_code] if trace is not None else ""


def _codes_of(kind: type) -> dict[CodeType, str]:
    written = [item for owner in reversed(kind.__mro__) for item in vars(owner).items()]
    functions = [(name, inspect.unwrap(each)) for name, each in written if callable(each)]
    return {each.__code__: name for name, each in functions if inspect.isfunction(each)}
