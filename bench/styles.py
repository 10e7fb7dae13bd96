"""Styles learned from a few letters, beside copying the nearest font and other baselines.

    python -m bench.styles FOLDER --output docs/results/styles.json

FOLDER is that of `bench.glyphs.corpus`. Half of the far fonts are to work with; the other half was
scored once (`--half shut`).
"""

import argparse
import io
import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from PIL import Image

from bench.glyphs.by_hand import drawn_by_hand, trained_by_hand
from bench.glyphs.corpus import Corpus
from bench.glyphs.scores import GIVEN, Case, Scores, judge_of, means_of
from cog_adapt import Adapter, Example, ModelRunner, Recipe, RunnerSettings
from examples.diffusion.drawing import DrawOptions
from examples.diffusion.letters import TRIGGER
from examples.diffusion.network import LETTERS
from examples.diffusion.task import Letters

LEARNED = {"learned style": "head", "LoRA and style": "lora", "auto": "auto"}
_SHOWN = 12


class Bench:
    """Draws cases in every way.

    Args:
        corpus: the fonts.
        runner: the model.
        recipe: of what is learned, but for method and seed.
    """

    def __init__(self, corpus: Corpus, runner: ModelRunner, recipe: Callable[..., Recipe]) -> None:
        self._corpus, self._runner, self._recipe = corpus, runner, recipe
        self._task = Letters()
        self._module = self._task.load().eval()

    def ways(self, case: Case) -> dict[str, tuple[np.ndarray, float]]:
        """Return for each way the drawn letters, uint8 [letters, 32, 32], and its CPU seconds."""
        given = self._examples(case.font, case.places)
        nearest = int(self._corpus.nearest[case.font])
        everything = self._examples(nearest, [*range(len(LETTERS))])
        ways: dict[str, Callable[[], np.ndarray]] = {
            "nearest font, copied": lambda: self._corpus.letters[nearest][case.rest],
            "base without a style": lambda: self._draw(case, None),
            "base in the nearest font's style": lambda: self._learn(case, everything, None),
            "style as it is read": lambda: self._learn(case, given, None),
        }
        for name, method in LEARNED.items():
            ways[name] = partial(self._learn, case, given, method)
        ways["LoRA and style by hand, with peft"] = partial(self._by_hand, case, given)
        found = {}
        for name, way in ways.items():
            began = time.process_time()
            found[name] = (way(), time.process_time() - began)
        return found

    def _examples(self, font: int, places: Sequence[int]) -> list[Example]:
        letters = self._corpus.letters[font]
        return [
            Example({"letter": LETTERS[place], "picture": _png(letters[place])}, TRIGGER)
            for place in places
        ]

    def _learn(self, case: Case, given: list[Example], method: str | None) -> np.ndarray:
        recipe = self._recipe(
            method=method or "head", seed=case.seed, stop_after=None if method else 0
        )
        return self._draw(case, self._runner.adapt(given, recipe).adapter)

    def _text(self, case: Case) -> str:
        return "".join(LETTERS[place] for place in case.rest)

    def _by_hand(self, case: Case, given: list[Example]) -> np.ndarray:
        batch = self._task.encode([self._task.decode_input(each.input) for each in given])
        model, style = trained_by_hand(self._module, batch, case.seed)
        return drawn_by_hand(model, style, self._text(case), case.seed)

    def _draw(self, case: Case, adapter: Adapter | None) -> np.ndarray:
        options = DrawOptions(seed=case.seed, form="raw")
        return np.asarray(self._runner.predict([self._text(case)], adapter, options=options)[0])


def _png(letter: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(255 - letter).save(file, "PNG")
    return file.getvalue()


def measured(folder: Path, asked: argparse.Namespace) -> tuple[dict[str, Any], Image.Image]:
    """Draw and judge all cases; return the means by way and given letters, and a grid."""
    corpus = Corpus.read(folder)
    half = [int(font) for font in corpus.held_out[asked.half == "shut"][: asked.fonts]]
    scores = Scores(corpus, judge_of(folder, corpus), half)
    cases = [Case(*each) for each in product(half, asked.given, range(asked.seeds))]
    first = [Case(font, asked.given[0], 0) for font in half[:_SHOWN]]
    rows: list[dict[str, Any]] = []
    shown: list[np.ndarray] = []
    with TemporaryDirectory() as scratch, _runner_in(scratch) as runner:
        bench = Bench(corpus, runner, recipe_of(asked))
        for case in cases:
            ways = bench.ways(case)
            rows += scores.rows_of(case, ways)
            shown += [_strip(corpus.letters[case.font], case, ways)] * (case in first)
    return {"cases": rows, "means": means_of(rows)}, Image.fromarray(np.concatenate(shown))


def _runner_in(scratch: str) -> ModelRunner:
    return ModelRunner(Letters(), RunnerSettings(device="cpu", weights_dir=Path(scratch)))


def recipe_of(asked: argparse.Namespace) -> Callable[..., Recipe]:
    """Return what makes the recipe of a method and a seed."""

    def made(method: str, seed: int, stop_after: int | None) -> Recipe:
        return Recipe(
            method=method,
            rank=asked.rank,
            max_steps=asked.steps,
            batch_size=8,
            repeats=4,
            learning_rate=asked.rate,
            ema=asked.ema,
            seed=seed,
            stop_after=stop_after,
        )

    return made


def _strip(truth: np.ndarray, case: Case, ways: dict[str, tuple[np.ndarray, float]]) -> np.ndarray:
    """Return the truth and each way below it, black on white, the given letters left out."""
    lines = [truth[case.rest], *(drawn for drawn, _ in ways.values())]
    rows = [np.concatenate([*line[:30]], 1) for line in lines]
    return 255 - np.concatenate([*rows, np.zeros((8, rows[0].shape[1]), np.uint8)])


def main() -> None:
    """Measure, and write figures and pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--half", choices=("work", "shut"), default="work")
    parser.add_argument("--fonts", type=int, default=40)
    parser.add_argument("--given", type=int, nargs="+", default=[8, 4, 16], choices=GIVEN)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--ema", type=float, default=0.9)
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    found, grid = measured(asked.folder, asked)
    for row in found["means"]:
        print(json.dumps(row))
    if asked.output:
        asked.output.write_text(json.dumps(found, indent=1) + "\n")
        grid.save(asked.output.with_suffix(".png"))


if __name__ == "__main__":
    main()
