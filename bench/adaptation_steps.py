"""The time of one optimizer step, by what is trained and by what is stored.

All contestants take their steps in turn, so that other load of the machine affects each alike; the
first steps, and work that runs once before them, are left out of a step's time and have a column
of their own. The plain loop is that of bench/rivals.py.
"""

from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Any

import torch

from bench import data
from bench.report import Columns, Report, Spread, arguments, clock, milliseconds, ratio
from bench.rivals import Base, plain_steps
from cog_adapt.runner.adaptation.run import adapt
from cog_adapt.runner.adaptation.start import Start
from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.model.loaded_model import LoadedModel
from task import TextClassification

Steps = Generator[Any, None, Any]
EXAMPLES_PER_LABEL = 8
WARM_UP = 3
ALL, WITHOUT, PLAIN = "LoRA, all blocks", "LoRA, last block, without", "plain loop + peft"
KEPT = "LoRA, last block"
COLUMNS: Columns = {
    "contestant": str,
    "step, ms": milliseconds,
    "all blocks / this": ratio,
    "without / this": ratio,
    "once before, ms": ratio,
}


class WithoutBlocks(TextClassification):
    """The same task with blocks without names: nothing is stored."""

    blocks = "(?!)"


def contestants(model: LoadedModel, recipe: Recipe, seed: int) -> dict[str, Steps]:
    """Make the contestants; each `next` is a tick, and yields a result at a step's end."""
    examples = data.split(EXAMPLES_PER_LABEL, seed, 1).train

    def started(**changes: Any) -> Start:  # noqa: ANN401 - fields of a recipe
        return model.start(examples, replace(recipe, **changes))

    last = started(blocks=1)
    rate = last.training.learning_rate
    base = Base.load(TextClassification(), model.base.precision)
    return {
        ALL: adapt(started()),
        WITHOUT: adapt(replace(last, task=WithoutBlocks())),
        KEPT: adapt(last),
        "norms, last block": adapt(started(method="norms", blocks=1)),
        "head": adapt(started(method="head")),
        PLAIN: (True for _ in plain_steps(base, examples, recipe, rate)),
    }


def race(model: LoadedModel, steps: int, seed: int = 0) -> Report:
    """Take the steps of all contestants in turn."""
    recipe = Recipe(max_steps=steps + WARM_UP + 1, seed=seed)
    running = contestants(model, recipe, seed)
    device = model.base.precision.device
    once = {name: _step(each, device) for name, each in running.items()}
    times: dict[str, list[float]] = {name: [] for name in running}
    names = list(running)
    for number in range(WARM_UP + steps):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            times[name].append(_step(running[name], device))
    for each in running.values():
        each.close()
    facts = {"steps": steps, "recipe": str(recipe), **data.facts()}
    measured = {name: values[WARM_UP:] for name, values in times.items()}
    return Report("A step on WordNet noun glosses", COLUMNS, rows(measured, once), facts)


def rows(times: Mapping[str, list[float]], once: Mapping[str, float]) -> list[dict[str, Any]]:
    """Make a row for each contestant; ratios are of the steps of one turn."""
    return [
        {
            "contestant": name,
            "step, ms": Spread.of(values),
            "all blocks / this": _ratios(times[ALL], values),
            "without / this": _ratios(times[WITHOUT], values),
            "once before, ms": Spread.of([once[name]]),
        }
        for name, values in times.items()
    ]


def _ratios(one: list[float], other: list[float]) -> Spread:
    return Spread.of([a / b for a, b in zip(one, other, strict=True)])


def _step(steps: Steps, device: torch.device) -> float:
    """Run the work before a step, and the step; return the step's milliseconds."""
    began = clock(device)
    while next(steps) is None:
        pass
    return 1000 * (clock(device) - began)


def main() -> None:
    """Measure a step of LoRA on all blocks and on the last, from stored outputs, and plain."""
    chosen = arguments(main.__doc__)
    model = LoadedModel(TextClassification(), RunnerSettings.from_environment())
    race(model, 2 if chosen.quick else 20).publish(model.base.precision, chosen.output)


if __name__ == "__main__":
    main()
