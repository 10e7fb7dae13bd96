"""Inputs that a task decodes before it encodes them, and examples with decoded inputs.

Digests and features are keyed by the input as it was sent, so both forms are kept together. This
module knows no model, and of threads their names.
"""

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.data.plain_values import characters_of
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.task.task import Batch, Task, decodes, tells_quick_inputs

QUICK, ALL = "decode-quick", "decode"  # names of threads
_SHORT = 2**16


@dataclass(frozen=True)
class Decoded:
    """An input as it was sent, with its decoded value.

    Attributes:
        sent: by a caller, or made by the task from a row.
        value: for `Task.encode`.
    """

    sent: Any
    value: Any

    @property
    def nbytes(self) -> int:
        """The bytes of the decoded value, if it has such a property."""
        found = getattr(self.value, "nbytes", None)
        if isinstance(found, int):
            return found
        return len(self.value) if isinstance(self.value, bytes | str) else 0


def are_decoded(inputs: Iterable[Any]) -> bool:
    """Return whether all inputs are decoded."""
    return all(isinstance(each, Decoded) for each in inputs)


def threads_of(task: Task) -> tuple[str, ...]:
    """Return the names of the threads that decode a task's inputs, the quick inputs' first."""
    if not decodes(task):
        return ()
    return (QUICK, ALL) if tells_quick_inputs(task) else (ALL,)


def opens_no_file(task: Task, inputs: Sequence[Any], examples: Sequence[Example] = ()) -> bool:
    """Return whether all inputs are short texts, of which the default reads a few bytes."""
    values = chain(inputs, (each.input for each in examples))
    return type(task).decoding_cost is Task.decoding_cost and all(
        type(value) is str and len(value) < _SHORT for value in values
    )


def check_decoding(task: Task, inputs: Sequence[Any], examples: Sequence[Example] = ()) -> None:
    """Refuse inputs that take too long to decode, by the count of `Task.decoding_cost`.

    Raises:
        InputError: a value's header is broken, or all values together cost too much.
    """
    total = 0
    values = chain(inputs, (each.input for each in examples))
    for place, value in enumerate(values):
        if isinstance(value, Decoded):
            continue  # the value was counted before it was decoded
        try:
            total += task.decoding_cost(value)
        except InputError as error:
            raise InputError(f"{_name(place, inputs)}: {error}") from error
        if total > task.max_decoding:
            raise InputError(
                f"up to {_name(place, inputs)} the request has {total:,} {task.decoding_unit}; "
                f"the limit is {task.max_decoding:,} for its inputs and examples together. Send "
                "fewer or smaller ones."
            )


def _name(place: int, inputs: Sequence[Any]) -> str:
    """Return a name for an input, or for an example that comes after all inputs."""
    count = len(inputs)
    return f"input {place + 1}" if place < count else f"example {place - count + 1}"


def encoded(task: Task, inputs: Sequence[Any]) -> Batch:
    """Encode inputs; those not decoded before are decoded here."""
    return task.encode(opened(task, inputs))


def opened(task: Task, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return inputs in the form that `Task.encode` takes."""
    if not decodes(task):
        return inputs
    return [each.value if isinstance(each, Decoded) else task.decode_input(each) for each in inputs]


def decoding_inputs(
    task: Task, inputs: Sequence[Any], *, only_quick: bool
) -> Generator[None, None, list[Any]]:
    """Decode the inputs of a request, one at a tick.

    Args:
        task: decodes them.
        inputs: as they were sent, or decoded before.
        only_quick: leave inputs that are slow to decode, by the task, as they are.

    Raises:
        InputError: an input is broken or too long when decoded; the message has its number.
    """
    found: list[Any] = []
    for number, each in enumerate(inputs, 1):
        found.append(_decoded(task, each, f"input {number}", only_quick=only_quick))
        yield None
    return found


def decoding_examples(
    task: Task, examples: Sequence[Example], chosen: Sequence[int], *, only_quick: bool
) -> Generator[None, None, list[Example]]:
    """Decode the inputs of the examples at these positions, one at a tick; return all examples.

    Raises:
        InputError: as `decoding_inputs`.
    """
    found = [*examples]
    for place in chosen:
        name = f"example {place + 1}"
        value = _decoded(task, found[place].input, name, only_quick=only_quick)
        found[place] = Example(value, found[place].target)
        yield None
    return found


def _decoded(task: Task, sent: Any, name: str, *, only_quick: bool) -> Any:  # noqa: ANN401 - what a caller sent
    if isinstance(sent, Decoded):
        return sent
    try:
        if only_quick and not task.decodes_quickly(sent):
            return sent
        value = task.decode_input(sent)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    size = characters_of(value)
    if size > task.max_characters:
        raise InputError(
            f"{name} has {size:,} characters when decoded; the limit is {task.max_characters:,}. "
            "Shorten it."
        )
    return Decoded(sent, value)
