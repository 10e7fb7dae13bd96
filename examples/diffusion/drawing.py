"""A text on its way from noise to letters: Euler steps of a flow."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from cog_adapt import Batch, Generation, InputError, batch_rows
from examples.diffusion.letters import MOST_LETTERS, check_size, data_uri, letters_of, set_text
from examples.diffusion.network import SIDE

PIXELS = SIDE * SIDE
# Of letters that nobody gave; chosen on typefaces to work with (docs/diffusion.md).
NOISE = 0.3  # the first noise's standard deviation: nearer to what is likely, and less varied
EMPHASIS = 1.0  # the letter counts more beside the style, and is read more often
_FORMS = ("png", "webp", "jpg", "raw", "pixels")
_BOUNDS = (
    ("steps", 1, 1000),
    ("guidance", 0, 100),
    ("height", 0, 16_383),
    ("width", 0, 16_383),
    ("previews", 0, 1000),
)
T = TypeVar("T", bound=Any)


@dataclass(frozen=True)
class DrawOptions:
    """How a text is drawn.

    Attributes:
        steps: Euler steps from noise to picture.
        guidance: weight of the style against no style; 1: the style alone.
        seed: of the noise.
        height: of a line of text, in pixels; of a picture by a folder (0: as it was trained).
        width: of a picture by a folder, in the same way.
        form: png, webp or jpg, as a data URI; raw: letters alone, uint8 [n, 32, 32], or latents,
            [c, h, w]; pixels: of a folder's picture, [3, h, w] from -1 to 1.
        previews: pictures of what is seen so far, on the way.
    """

    steps: int = 12
    guidance: float = 1.0
    seed: int = 0
    height: int = 128
    width: int = 0
    form: str = "png"
    previews: int = 0

    def __post_init__(self) -> None:
        """Refuse what no request may ask (InputError)."""
        for name, least, most in _BOUNDS:
            value = getattr(self, name)
            if not isinstance(value, int | float) or not least <= value <= most:
                raise InputError(f"{name} is {value!r:.40}; it lies in {least} to {most}.")
        if self.form not in _FORMS:
            raise InputError(f"the format is {self.form!r:.40}; send one of {', '.join(_FORMS)}.")


def seeded(options: DrawOptions, seed: int | None, count: int) -> list[DrawOptions]:
    """Return the options of pictures; the first seed is printed, and drawn if it is None."""
    first = random.randrange(2**31) if seed is None else seed
    print(f"Using seed: {first}")
    return [replace(options, seed=first + number) for number in range(count)]


def chosen(usual: T, **asked: Any) -> T:
    """Return a dataclass with the values that were asked; None is not asked."""
    return replace(usual, **{name: value for name, value in asked.items() if value is not None})


class Drawing(Generation):
    """One text.

    Attributes:
        letters: positions of its letters, [n].
        x: noisy letters, [n, 1, 32, 32].
        guidance: see `DrawOptions`.
    """

    joins = True

    def __init__(self, text: str, options: DrawOptions) -> None:
        self._text, self._options = text, options
        self.letters = torch.tensor(letters_of(text))
        check_size(text, options.height)
        draws = torch.Generator().manual_seed(options.seed)
        noise = torch.randn(len(self.letters), 1, SIDE, SIDE, generator=draws)
        self.x: Tensor = NOISE * noise
        self.guidance = options.guidance
        self.nbytes = 3 * self.x.nbytes
        self._sigmas = torch.linspace(1, 0, options.steps + 1)
        self._step = 0
        self._made: Any = None

    @property
    def sigma(self) -> Tensor:
        """The share of noise in each letter now, [n]."""
        return self._sigmas[self._step].expand(len(self.letters))

    def advance(self, estimate: Tensor) -> None:
        """Take the step that an estimate of the letters without noise implies.

        Args:
            estimate: [n · 32 · 32], or more, of which the first count.
        """
        clean = estimate[: self.x.numel()].view_as(self.x).float().cpu()
        sigma, following = self._sigmas[self._step : self._step + 2].tolist()
        velocity = (self.x - clean) / sigma
        self.x = self.x + (following - sigma) * velocity
        self._step += 1
        self.done = self._step == self._options.steps
        if self.done or self._is_previewed:
            shown = (self.x if self.done else clean).squeeze(1).numpy()
            self._made = self._shown(shown)

    def taken(self) -> Any:
        """Take a preview, or at the end the picture."""
        made, self._made = self._made, None
        return made

    def facts(self) -> Mapping[str, Any]:
        """Return the steps, the letters and the seed."""
        return {"steps": self._step, "letters": len(self.letters), "seed": self._options.seed}

    def close(self) -> None:
        """Release the letters."""
        self.x = self.x.new_empty(0)

    def _shown(self, letters: np.ndarray) -> Any:
        if self._options.form == "raw":
            return ((letters.clip(-1, 1) + 1) * 127.5).round().astype(np.uint8)
        picture = set_text(self._text, letters, self._options.height)
        return data_uri(picture, self._options.form)

    @property
    def _is_previewed(self) -> bool:
        steps, wanted = self._options.steps, self._options.previews
        return (self._step * (wanted + 1)) // steps > ((self._step - 1) * (wanted + 1)) // steps


def estimates_of(module: Any, drawings: Sequence[Drawing]) -> Tensor:
    """Estimate the letters of all texts without their noise, in one forward.

    Returns:
        [texts, 64 · 32 · 32]; the letters of a text, then zeros.
    """
    device = module.no_style.device
    counts = torch.tensor([len(each.letters) for each in drawings])
    x = torch.cat([each.x for each in drawings]).to(device)
    sigma = torch.cat([each.sigma for each in drawings]).to(device)
    letters = torch.cat([each.letters for each in drawings]).to(device)
    weights = torch.tensor([each.guidance for each in drawings]).repeat_interleave(counts)
    with batch_rows(torch.arange(len(counts)).repeat_interleave(counts)):
        style = module.style_of(torch.zeros_like(letters))
        estimate = module(x, sigma, letters, style, EMPHASIS)
        if (weights != 1).any():
            none = module.no_style.view(1, *module.style_shape).expand(len(x), -1, -1)
            plain = module(x, sigma, letters, none, EMPHASIS)
            estimate = plain + weights.to(device).view(-1, 1, 1, 1) * (estimate - plain)
    rows: Tensor = estimate.new_zeros(len(counts), MOST_LETTERS * PIXELS)
    for row, each in zip(rows, torch.split(estimate, counts.tolist()), strict=True):
        row[: each.numel()] = each.flatten()
    return rows


def first_estimates(module: Any, batch: Batch) -> list[list[float]]:
    """Estimate letters from noise alone, as a first step does: the self-test's prediction."""
    letter = batch["letter"]
    noise = torch.zeros_like(batch["picture"])
    sigma = torch.ones_like(noise[:, 0, 0, 0])
    found = module(noise, sigma, letter, module.style_of(torch.zeros_like(letter)))
    return [*found.flatten(1).tolist()]
