"""How much memory adaptations may hold at once, and how one asks for what it needs."""

import time
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any

import torch

from cog_adapt.runner.adaptation.memory_estimate import MemoryEstimates, Needed, longest_of
from cog_adapt.runner.adaptation.start import Start
from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.scheduling.elsewhere import Elsewhere
from cog_adapt.runner.scheduling.held_memory import HeldMemory
from cog_adapt.runner.task.decoding import QUICK, are_decoded, decoding_examples, threads_of
from cog_adapt.shared_settings import share_of
from gradient_check.phases.memory import free_memory

_SHARE_OF_FREE = 7 / 8  # the rest is for predictions, and for estimates that are too low


def held_adaptations(device: torch.device, settings: RunnerSettings) -> HeldMemory[Any]:
    """Limit adaptations by count, and by the bytes that are free while none is under way."""

    def limit() -> int:
        free = share_of(free_memory(device), settings.memory_share)
        return settings.adaptation_memory_bytes or int(_SHARE_OF_FREE * free)

    return HeldMemory(
        limit,
        owner_share=1.0,
        most_at_once=settings.adaptations_at_once,
        setting="ADAPTATIONS_AT_ONCE",
    )


def admitted(
    estimates: MemoryEstimates, start: Start
) -> Generator[Elsewhere[Any] | Needed | None, None, Start]:
    """Say what a start needs, and go on with its examples decoded, once it may.

    Its budget pays for no wait.
    """
    start = yield from _decoded(start, longest_of(start.data.examples))
    needed = estimates.of(start)
    asked = time.monotonic()
    yield needed
    if start.began is not None:
        start = replace(start, began=start.began + time.monotonic() - asked)
    return (yield from _decoded(start, range(len(start.data.examples))))


def _decoded(start: Start, chosen: Sequence[int]) -> Generator[Elsewhere[Any], None, Start]:
    """Let other threads decode examples, where the task decodes them."""
    for name in threads_of(start.task):
        examples = start.data.examples
        if are_decoded(examples[place].input for place in chosen):
            break
        steps = decoding_examples(start.task, examples, chosen, only_quick=name == QUICK)
        work = Elsewhere(steps, name)
        yield work
        start = start.with_examples(work.result())
    return start
