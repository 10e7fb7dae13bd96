"""Letters that the base draws itself, so that learning a few does not unlearn how others look.

Prior preservation (Ruiz et al. 2023, arXiv 2208.12242), in each style as the base reads it.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Any

from cog_adapt import Example, on_device
from examples.diffusion.drawing import Drawing, DrawOptions
from examples.diffusion.letters import Letter, encoded
from examples.diffusion.network import LETTERS


def drawn_by_base(
    module: Any, examples: Sequence[Example], count: int, steps: int
) -> Iterator[Example | None]:
    """Draw letters, those first that were not given; None after each step.

    Args:
        module: the base.
        examples: of letters; their targets name styles.
        count: letters in all, shared among the styles.
        steps: Euler steps of a letter.
    """
    styles = list(dict.fromkeys(each.target for each in examples))
    for number, style in enumerate(styles):
        given = [each.input for each in examples if each.target == style]
        share = count // len(styles) + (number < count % len(styles))
        for made in _of_style(module, given, share, steps=steps):
            yield Example(made, style) if made else None


def _of_style(
    module: Any, given: Sequence[Letter], count: int, steps: int
) -> Iterator[Letter | None]:
    for seed, text in enumerate(_texts(given, count)):
        yield from _drawn(module, given, text, options=DrawOptions(steps=steps, seed=seed))


def _texts(given: Sequence[Letter], count: int) -> Iterator[str]:
    """Choose letters, none twice in a text."""
    names = {each.name for each in given}
    shuffled = random.Random(0).sample(LETTERS, len(LETTERS))
    order = "".join(sorted(shuffled, key=names.__contains__))
    for first in range(0, count, len(order)):
        yield order[: count - first]


def _drawn(
    module: Any, given: Sequence[Letter], text: str, options: DrawOptions
) -> Iterator[Letter | None]:
    device = module.no_style.device
    style = module.read_style(**on_device(encoded(given), device))
    tokens = style.view(1, *module.style_shape).expand(len(text), -1, -1)
    drawing = Drawing(text, options)
    places = drawing.letters.to(device)
    while not drawing.done:
        drawing.advance(module(drawing.x.to(device), drawing.sigma.to(device), places, tokens))
        yield None
    for name, pixels in zip(text, drawing.x[:, 0].clamp(-1, 1).numpy(), strict=True):
        yield Letter(name, pixels)
