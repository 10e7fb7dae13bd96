"""Measures eight pictures of four styles beside eight of one, all asked at once.

    python -m bench.pictures_together --output docs/results/pictures-together.json --threads 1

Requests' denoising steps share forwards. The styles are learned in a few steps, which are not
timed; the contestants take turns, with their CPU time and the ratio within each round.
"""

import asyncio
import io
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image

from bench.report import Columns, Report, Spread, arguments, interleave, ratio, seconds
from cog_adapt import Adapter, Example, ModelRunner, Query, Recipe, RunnerSettings
from cog_adapt.runner.devices.device import choose_precision
from examples.diffusion.drawing import DrawOptions
from examples.diffusion.letters import TRIGGER
from examples.diffusion.task import Letters

_PICTURES, _STYLES = 8, 4
_METHODS = {"learned style": "head", "LoRA and style": "lora"}
COLUMNS: Columns = {
    "learned": str,
    "styles": str,
    "seconds": seconds,
    "of one style, times slower": ratio,
}


def drawn(runner: ModelRunner, adapters: Sequence[Adapter], number: int) -> float:
    """Return the CPU seconds of pictures that are asked at once, of adapters in turn."""
    queries = [
        Query(
            inputs=["Hamburg 27"],
            adapter=adapters[place % len(adapters)],
            options=DrawOptions(seed=number * _PICTURES + place, form="raw"),
        )
        for place in range(_PICTURES)
    ]

    async def all_of_them() -> None:
        await asyncio.gather(*map(runner.predict_async, queries))

    began = time.process_time()
    asyncio.run(all_of_them())
    return time.process_time() - began


def bar(width: int) -> bytes:
    """Return a PNG of a black bar on white, so many pixels wide."""
    picture, file = Image.new("L", (32, 32), 255), io.BytesIO()
    picture.paste(0, (16 - width // 2, 4, 16 - width // 2 + width, 24))
    picture.save(file, "PNG")
    return file.getvalue()


def adapters_of(runner: ModelRunner, method: str) -> list[Adapter]:
    """Learn styles of bars of several widths."""
    recipe = Recipe(method=method, max_steps=3, learning_rate=1e-3)
    found = []
    for width in range(2, 2 + _STYLES):
        rows = [{"letter": letter, "picture": bar(width)} for letter in "Il1"]
        done = runner.adapt([Example(row, TRIGGER) for row in rows], recipe)
        found.append(done.adapter)
    return [each for each in found if each is not None]


def measured(runner: ModelRunner, rounds: int) -> list[dict[str, Any]]:
    """Let styles and methods take turns."""
    turns = {}
    for name, method in _METHODS.items():
        adapters = adapters_of(runner, method)
        for count in (1, _STYLES):
            turns[f"{name}, {count}"] = partial(drawn, runner, adapters[:count])
    for turn in turns.values():
        turn(0)  # adapters are brought to the device once
    results = interleave(turns, rounds)
    rows = []
    for key, values in results.items():
        name, _, styles = key.rpartition(", ")
        pairs = zip(values, results[f"{name}, 1"], strict=True)
        slower = Spread.of([one / other for one, other in pairs])
        rows.append(
            {
                "learned": name,
                "styles": styles,
                "seconds": Spread.of(values),
                "of one style, times slower": slower,
            }
        )
    return rows


def main() -> None:
    """Measure eight pictures of four styles beside eight of one."""
    chosen = arguments(main.__doc__)
    rounds = 2 if chosen.quick else 15
    settings = RunnerSettings.from_environment()
    with TemporaryDirectory() as scratch:
        own = settings.model_copy(update={"weights_dir": Path(scratch)})
        with ModelRunner(Letters(), own) as runner:
            rows = measured(runner, rounds)
    facts = {"pictures": _PICTURES, "letters of each": 9, "steps of each": 12, "rounds": rounds}
    report = Report("Pictures of several styles at once", COLUMNS, rows, facts)
    report.publish(choose_precision(settings), chosen.output)


if __name__ == "__main__":
    main()
