"""Examples that the base makes before the first step, so that an adaptation does not unlearn them.

Prior preservation (Ruiz et al. 2023, arXiv 2208.12242): beside pictures of one dog, the steps see
dogs as the base draws them.
"""

from collections.abc import Generator
from dataclasses import replace

from cog_adapt.runner.adaptation.start import Start
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.errors import AdaptationError
from cog_adapt.runner.task.decoding import Decoded, opened
from cog_adapt.runner.task.task import decodes
from gradient_check.phases.modes import run_inference
from gradient_check.phases.replicas import serving_replica


def with_extra_examples(start: Start) -> Generator[None, None, Start]:
    """Let the base make the examples that a recipe asks for, a part of one each tick.

    Raises:
        AdaptationError: the task makes fewer.
    """
    task, recipe, data = start.task, start.training.recipe, start.data
    count = recipe.extra_examples
    if not count:
        return start
    base = serving_replica(start.trained.template, {})
    sent = opened(task, [each.input for each in data.examples])
    examples = [replace(each, input=i) for each, i in zip(data.examples, sent, strict=True)]
    parts = iter(task.extra_examples(base, examples, count))
    made: list[Example] = []
    while len(made) < count:
        part = run_inference(
            lambda _: next(parts, StopIteration), base, start.training.precision, "no_grad"
        )
        if part is StopIteration:
            raise AdaptationError(
                f"{type(task).__name__}.extra_examples made {len(made)} of {count} examples. Yield "
                "each, and None between steps of one."
            )
        if isinstance(part, Example):
            own = part.input
            made.append(replace(part, input=Decoded(own, own) if decodes(task) else own))
        yield None
    weights = [*(data.weights or [1.0] * len(data.examples)), *[recipe.extra_weight] * count]
    both = [*data.examples, *made]
    return replace(start, data=replace(data, examples=both, weights=weights, extra=count))
