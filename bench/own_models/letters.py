"""Letters, by hand: a plain PyTorch loop with peft's LoRA and a style that is trained beside it."""

import base64
import importlib
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from bench.glyphs.by_hand import USUAL, drawn_by_hand, trained_by_hand
from bench.glyphs.rendering import LETTERS, render
from bench.own_models.contest import Kind, Outcome, Way, asked, by_hand, on_model_thread, runner_of
from cog_adapt import Recipe, Request

FONT = Path("/usr/share/fonts/truetype/isabella/Isabella.ttf")
_GIVEN = "HOAnageR"
_REST = "".join(letter for letter in LETTERS if letter not in _GIVEN)


@contextmanager
def ways(scratch: Path) -> Iterator[tuple[Way, Way]]:
    """Give the two ways to adapt to eight letters of a typeface."""
    task = importlib.import_module("examples.diffusion.task").Letters()
    drawing = importlib.import_module("examples.diffusion.drawing")
    letters = dict(zip(LETTERS, render(FONT), strict=True))
    rows = [{"caption": each, "image": _uri(letters[each])} for each in _GIVEN]
    truth = np.stack([letters[each] for each in _REST])
    batch = task.encode([task.decode_input(task.example(row).input) for row in rows])
    module = task.load().eval()

    def score(answers: Sequence[np.ndarray]) -> float:
        return 1 - float(np.abs(answers[0].astype(float) - truth).mean()) / 255

    def plain(seed: int) -> np.ndarray:
        return drawn_by_hand(module, module.no_style.detach(), _REST, seed)

    with runner_of(task, scratch) as runner:

        def ours(seed: int) -> Outcome:
            recipe = Recipe(
                max_steps=USUAL.steps,
                batch_size=8,
                repeats=USUAL.draws,
                learning_rate=USUAL.rate,
                seed=seed,
            )
            options = drawing.DrawOptions(form="raw", seed=seed)
            request = Request([_REST], examples=rows, recipe=recipe, options=options)
            return asked(runner, request, score)

        def hand(seed: int) -> Outcome:
            def adapt() -> Any:
                model, style = trained_by_hand(module, batch, seed)
                return lambda: [drawn_by_hand(model, style, _REST, seed)]

            return by_hand([plain(seed)], adapt, score)

        yield ours, on_model_thread(runner, hand)


def _uri(letter: np.ndarray) -> str:
    file = io.BytesIO()
    Image.fromarray(255 - letter).save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


KIND = Kind(
    f"diffusion: letters, eight of a typeface, {USUAL.steps} steps",
    "examples/diffusion",
    "1 - L1",
    "peft's LoRA and a style, 100 steps of 32",
    {
        "diffusers": "diffusers",
        "peft": "peft",
        "Debian's fonts-isabella": str(FONT),
    },
    ways,
)
