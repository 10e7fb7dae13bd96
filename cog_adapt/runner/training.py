"""A training from end to end: examples in, an adapter's file and a report out."""

import asyncio
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cog_adapt.runner.config import Recipe
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.examples import Example
from cog_adapt.runner.few_shot import how_made, warnings_about
from cog_adapt.runner.methods import resolve
from cog_adapt.runner.model_runner import ModelRunner
from cog_adapt.runner.progress import Progress, Scope
from cog_adapt.runner.request import Request, read_request_examples


@dataclass(frozen=True)
class Trained:
    """What one training gets.

    Attributes:
        weights: the adapter's file.
        report: of the adaptation, with `warnings` and the id of the `adapter`.
    """

    weights: Path
    report: dict[str, Any]


async def train(runner: ModelRunner, request: Request, scope: Scope | None = None) -> Trained:
    """Make a persistent adapter; a run that was killed goes on where it stopped.

    One that is cancelled, or fails, leaves nothing on disk.

    Args:
        runner: the model.
        request: examples and recipe; it needs no inputs.
        scope: of Cog's run: it names the owner, and gets the metrics of each step taken.

    Raises:
        InputError: the examples or the recipe do not fit.
        AdaptationError: a gradient step could not be taken.
        StoreError: a checkpoint or the adapter could not be written.
    """
    owner = runner.owner_of(scope.context if scope else {})
    examples = await asyncio.to_thread(read_request_examples, request, runner.task.example)
    if not examples.examples:
        raise InputError("no examples: send `examples` or `examples_file`.")
    warnings = await warnings_about(runner, request, examples)
    key = await asyncio.to_thread(_run_key, runner, examples.examples, request.recipe, owner)
    checkpoint = runner.checkpoints.begin(key, owner)
    progress = Progress(scope)
    try:
        done = await runner.adapt_async(
            examples.examples, request.recipe, progress.show_step, checkpoint=checkpoint
        )
        made = how_made(done, examples.examples, None)
        path = await asyncio.to_thread(runner.store.put, done.adapter, owner, made)
    except OSError:  # of a print, whose server was killed: the training goes on when asked again
        raise
    except (Exception, asyncio.CancelledError):
        runner.checkpoints.remove(checkpoint)
        raise
    runner.checkpoints.remove(checkpoint)  # only now: a kill in between goes on from it
    progress.show_outcome(done.adapter.id, None)
    report = done.report.to_json() | {"adapter": done.adapter.id, "warnings": [*warnings]}
    return Trained(path, report)


def _run_key(runner: ModelRunner, examples: Sequence[Example], recipe: Recipe, owner: str) -> str:
    """Digest what makes two training runs the same: base, precision, examples, recipe and owner."""
    content = [
        runner.base,
        str(runner.precision),
        [(e.input, e.target) for e in examples],
        asdict(resolve(recipe, runner.task)),
        *([owner] if owner else []),
    ]
    return hashlib.sha256(json.dumps(content, default=repr).encode()).hexdigest()[:16]
