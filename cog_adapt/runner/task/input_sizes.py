"""Bounds the characters of inputs, and the inputs that a tick of the model thread takes.

A tokenizer needs time for each character it is given, including those that a model does not read.
So characters are counted before a function of a task sees them: of one input, of a request, and of
a tick. This module knows no model and no thread.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from cog_adapt.runner.data.plain_values import characters_of
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.task.task import Task, decodes

MOST_CHARACTERS = 4 * 2**20  # in all inputs of a request: about 10 s of ticks
# In a tick. The tokenizer of MiniLM takes 0.5 to 1 microseconds for a character of English, and 2.7
# at worst (Chinese, long words): 8 ms, or 22. Inputs with too many tokens for one forward are
# tokenized twice, so the worst is 44 ms. 32 texts of 256 characters still are one tick. One input
# is never cut: `Task.max_characters` bounds it, by default to twice as many.
TICK_CHARACTERS = 8_192
# Characters of a pair of inputs that have a tick of their own: 2.7 microseconds each make 49 ms
PAIR_CHARACTERS = 18_000


def check_characters(task: Task, inputs: Sequence[Any]) -> None:
    """Refuse inputs with too many characters, before the task sees them.

    If the task decodes inputs, the decoded values count.

    Raises:
        InputError: one has more than `Task.max_characters`, or all of them have too many.
    """
    total = 0
    for number, value in enumerate(inputs, 1):
        size = characters_of(value)
        if size > task.max_characters and not decodes(task):
            raise InputError(
                f"input {number} has {size:,} characters; the limit is {task.max_characters:,}. "
                "Shorten it."
            )
        total += size
    if total > MOST_CHARACTERS and not decodes(task):
        raise InputError(
            f"the inputs have {total:,} characters together; a request may have "
            f"{MOST_CHARACTERS:,}. Send fewer or shorter ones."
        )


def fitting(inputs: Sequence[Any]) -> int:
    """Count the first inputs whose characters fit a tick, at least one."""
    total = 0
    for count, value in enumerate(inputs):
        total += characters_of(value)
        if count and total > TICK_CHARACTERS:
            return count
    return len(inputs)


def portions(inputs: Sequence[Any], size: int) -> Iterator[slice]:
    """Yield the positions of a tick's inputs: at most `size`, and as many as fit."""
    first = 0
    while first < len(inputs):
        last = first + fitting(inputs[first : first + size])
        yield slice(first, last)
        first = last
