"""A training from end to end: from examples to an adapter's file and a report."""

import asyncio
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from cog_adapt.runner.errors import InputError
from cog_adapt.runner.model_runner import ModelRunner
from cog_adapt.runner.request import Request, is_large, read_request_examples
from cog_adapt.runner.requests.few_shot import warnings_about
from cog_adapt.runner.requests.learning import learn
from cog_adapt.runner.requests.plan import AdaptationRequest, plan
from cog_adapt.runner.requests.progress import Progress, Scope
from cog_adapt.runner.task.decoding import check_decoding
from cog_adapt.runner.task.input_sizes import check_characters


@dataclass(frozen=True)
class Trained:
    """The result of one training.

    Attributes:
        weights: the adapter's file.
        report: of the adaptation, with `warnings` and the id of the `adapter`.
    """

    weights: Path
    report: dict[str, Any]


async def train(runner: ModelRunner, request: Request, scope: Scope | None = None) -> Trained:
    """Make a persistent adapter; a run that was killed continues from its last checkpoint.

    A training that is cancelled or fails leaves no file.

    Args:
        runner: the model.
        request: examples and recipe; it needs no inputs.
        scope: of Cog's run: names the owner, and receives the metrics of each step taken.

    Raises:
        InputError: the examples or the recipe do not fit.
        AdaptationError: a gradient step could not be taken.
        StoreError: a checkpoint or the adapter could not be written.
    """
    owner = runner.asker_of(scope.context if scope else {}).owner
    read = partial(read_request_examples, request, runner.task)
    examples = await runner.reading.read_async(owner, read, is_large=is_large(request))
    if not examples.examples:
        raise InputError("no examples: send `examples` or `examples_file`.")
    check_characters(runner.task, request.inputs)
    check = partial(check_decoding, runner.task, (), examples.examples)
    await runner.reading.read_async(owner, check, is_large=is_large(request))
    warnings = await warnings_about(runner, request, examples)
    wanted = AdaptationRequest(
        examples.examples, request.recipe, owner, fresh=request.fresh, survives=True
    )
    planned = await asyncio.to_thread(plan, runner, wanted)
    progress = Progress(scope)
    try:
        learned = await learn(runner, planned, progress.show)
    except OSError:  # of a print after the server was killed: an equal request continues the run
        raise
    except (Exception, asyncio.CancelledError):
        if planned.state and planned.run not in runner.cache.runs:  # no other follower needs it
            runner.checkpoints.remove(planned.state)
        raise
    if learned.problem is not None:
        raise learned.problem
    if learned.adapter is None:
        raise InputError(
            "the base answers these examples best, so there is no adapter to write. Choose a "
            "`method`, or send more examples."
        )
    path = await asyncio.to_thread(runner.store.put, learned.adapter, owner)
    progress.show_receipt(learned.receipt)
    progress.show_outcome(learned.adapter.id, None)
    report = learned.report | {
        "adapter": learned.adapter.id,
        "warnings": [*warnings, *learned.warnings],
    }
    return Trained(path, report)
