"""Styles learned from a few letters, beside copying the nearest font and other baselines.

    python -m bench.styles FOLDER --output docs/results/styles.json

FOLDER is that of `bench.glyphs.corpus`; each case is kept there, so a run goes on where the last
one ended, and `--part 0/2` shares the cases among processes. The recipe is chosen on the fonts
`work`; `shut`, `sealed` and `last` were scored once each, by the recipes of their days.
"""

import argparse
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from PIL import Image

from bench.glyphs.by_hand import drawn_by_hand, trained_by_hand
from bench.glyphs.corpus import SETS, Corpus
from bench.glyphs.rendering import png_of, row_of_letters
from bench.glyphs.scores import GIVEN, Case, Drawn, Scores, Way, judge_of, means_of
from cog_adapt import Adapter, Example, ModelRunner, Recipe, RunnerSettings
from cog_adapt.runner.model.loaded_model import Adaptation
from cog_adapt.runner.modules.blend import Blend
from examples.diffusion.drawing import EMPHASIS, NOISE, DrawOptions
from examples.diffusion.letters import TRIGGER
from examples.diffusion.network import LETTERS, load_network
from examples.diffusion.task import Letters

COPIED = "nearest font, copied"
WAYS = (
    COPIED,
    "base without a style",
    "base in the nearest font's style",
    "style as it is read",
    "learned style",
    "LoRA and style",
    "LoRA and style at its whole scale",
    "auto",
    "LoRA and style by hand, with peft",
)
_SHOWN = 8


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
        self._last: tuple[Any, Adaptation] | None = None
        self._module = self._task.load().eval()

    def draw(self, case: Case, name: str) -> Way:
        """Draw a case in a way of `WAYS`."""
        began = time.process_time()
        drawn, more = self._ways(case)[name]()
        way = Way(drawn, time.process_time() - began, more)
        if "expected" in more:
            way.more["measured"] = self._score(case, more.pop("adapter"))
        return way

    def _ways(self, case: Case) -> dict[str, Callable[[], Drawn]]:
        given = self._examples(case.font, case.places)
        nearest = int(self._corpus.nearest[case.font])
        everything = self._examples(nearest, [*range(len(LETTERS))])
        learn = partial(self._learn, case)
        return {
            COPIED: lambda: (self._corpus.letters[nearest][case.rest], {}),
            "base without a style": lambda: (self._draw(case, None), {}),
            "base in the nearest font's style": partial(learn, everything, None),
            "style as it is read": partial(learn, given, None),
            "learned style": partial(learn, given, "head"),
            "LoRA and style": partial(learn, given, "lora"),
            "LoRA and style at its whole scale": partial(learn, given, "lora", scale=1.0),
            "auto": partial(learn, given, "auto"),
            "LoRA and style by hand, with peft": partial(self._by_hand, case, given),
        }

    def _examples(self, font: int, places: Sequence[int]) -> list[Example]:
        letters = self._corpus.letters[font]
        return [
            Example({"letter": LETTERS[place], "picture": png_of(letters[place])}, TRIGGER)
            for place in places
        ]

    def _learn(
        self,
        case: Case,
        given: list[Example],
        method: str | None,
        *,
        scale: float = Letters.lora_scale,
    ) -> Drawn:
        recipe = self._recipe(
            method=method or "head", seed=case.seed, stop_after=None if method else 0
        )
        done = self._adapted(case, given, recipe)
        decision, more = done.report.decision, dict[str, Any]()
        if decision and decision.after:
            after = decision.after
            more = {
                "chosen": decision.chosen,
                "expected": after.score,
                "expected before": decision.before.score if decision.before else None,
                "expected error": after.error,
                "adapter": done.adapter,
            }
        return self._draw(case, Blend(scale).of(done.adapter)), more

    def _adapted(self, case: Case, given: list[Example], recipe: Recipe) -> Adaptation:
        """Adapt; at another scale, the last adaptation is drawn again."""
        key = (case, recipe, len(given))
        if self._last is None or self._last[0] != key:
            self._last = (key, self._runner.adapt(given, recipe))
        return self._last[1]

    def _score(self, case: Case, adapter: Adapter) -> float | None:
        """Return the mean score of half of the letters that were not given."""
        rest = self._examples(case.font, case.rest)
        looked = Recipe(hold_out=0.5, stop_after=0, batch_size=64, learning_rate=1e-3)
        return self._runner.adapt(rest, looked, begin=adapter).report.held_out_before

    def _text(self, case: Case) -> str:
        return "".join(LETTERS[place] for place in case.rest)

    def _by_hand(self, case: Case, given: list[Example]) -> Drawn:
        batch = self._task.encode([self._task.decode_input(each.input) for each in given])
        model, style = trained_by_hand(self._module, batch, case.seed)
        return drawn_by_hand(model, style, self._text(case), case.seed), {}

    def _draw(self, case: Case, adapter: Adapter | None) -> np.ndarray:
        options = DrawOptions(seed=case.seed, form="raw")
        return np.asarray(self._runner.predict([self._text(case)], adapter, options=options)[0])


class Cases:
    """The cases that are asked, and what is kept of each.

    Args:
        asked: the command's arguments.
    """

    def __init__(self, asked: argparse.Namespace) -> None:
        self._asked = asked
        self._corpus = Corpus.read(asked.folder)
        self._fonts = [int(font) for font in self._corpus.held_out[asked.set]][: asked.fonts]
        self._all = [Case(*each) for each in product(self._fonts, asked.given, range(asked.seeds))]
        weights = load_network().state_dict()
        digest = hashlib.sha256(b"".join(each.numpy().tobytes() for each in weights.values()))
        drawn = (recipe_of(asked)("lora", 0, None), Letters.lora_scale, NOISE, EMPHASIS)
        digest.update(repr(drawn).encode())
        self._kept: Path = asked.folder / f"cases-{digest.hexdigest()[:8]}"

    def measure(self) -> None:
        """Draw and judge the cases of this part that are not kept yet."""
        scores = Scores(self._corpus, judge_of(self._asked.folder, self._corpus), self._fonts)
        self._kept.mkdir(exist_ok=True)
        part, parts = map(int, self._asked.part.split("/"))
        with TemporaryDirectory() as scratch, _runner_in(scratch) as runner:
            bench = Bench(self._corpus, runner, recipe_of(self._asked))
            asked = product(self._all[part::parts], self._asked.ways)
            for case, name in [each for each in asked if not self._path(*each).exists()]:
                way = bench.draw(case, name)
                Image.fromarray(row_of_letters(way.drawn)).save(self._path(case, name, "png"))
                row = scores.row_of(case, name, way)
                self._path(case, name).write_text(json.dumps(row))

    def found(self) -> tuple[dict[str, Any], Image.Image]:
        """Return the rows of all cases, their means by way and given letters, and a grid."""
        rows = [
            json.loads(path.read_text())
            for case, name in product(self._all, WAYS)
            if (path := self._path(case, name)).exists()
        ]
        first = [Case(font, self._asked.given[0], 0) for font in self._fonts[:_SHOWN]]
        grid = Image.fromarray(np.concatenate([self._strip(case) for case in first]))
        of = f"the fonts {self._asked.set}, {len(self._fonts)}"
        return {"of": of, "means": means_of(rows), "cases": rows}, grid

    def _strip(self, case: Case) -> np.ndarray:
        """Return the truth and each way below it, black on white, the given letters left out."""
        paths = [self._path(case, name, "png") for name in WAYS]
        drawn = [np.asarray(Image.open(path)) for path in paths if path.exists()]
        lines = [row_of_letters(self._corpus.letters[case.font][case.rest]), *drawn]
        return np.concatenate([*lines, np.full((8, lines[0].shape[1]), 255, np.uint8)])

    def _path(self, case: Case, name: str, ending: str = "json") -> Path:
        parts = (self._corpus.names[case.font], case.given, case.seed, WAYS.index(name))
        return self._kept / f"{'-'.join(map(str, parts)).replace('/', ' ')}.{ending}"


def _runner_in(scratch: str) -> ModelRunner:
    return ModelRunner(Letters(), RunnerSettings(device="cpu", weights_dir=Path(scratch)))


def recipe_of(asked: argparse.Namespace) -> Callable[..., Recipe]:
    """Return what makes the recipe of a method, a seed and the steps after which it stops."""

    def made(method: str, seed: int, stop_after: int | None) -> Recipe:
        usual = replace(Letters.recipe, method=method, seed=seed, max_steps=asked.steps)
        return replace(usual, stop_after=stop_after)

    return made


def main() -> None:
    """Measure, and write figures and pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--set", choices=SETS, default="work")
    parser.add_argument("--fonts", type=int, default=40)
    parser.add_argument("--given", type=int, nargs="+", default=[8, 4, 16], choices=GIVEN)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--ways", nargs="+", default=WAYS, choices=WAYS)
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    cases = Cases(asked)
    cases.measure()
    found, grid = cases.found()
    for row in found["means"]:
        print(json.dumps(row))
    if asked.output:
        rows = ",\n ".join(map(json.dumps, found.pop("cases")))
        asked.output.write_text(f'{json.dumps(found, indent=1)[:-2]},\n "cases": [\n {rows}]\n}}\n')
        grid.save(asked.output.with_suffix(".png"))


if __name__ == "__main__":
    main()
