"""Letters of a font as small grey pictures, all on one baseline and at one size."""

import io
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase, digits

import numpy as np
from PIL import Image, ImageDraw, ImageFont

LETTERS = ascii_uppercase + ascii_lowercase + digits
SIDE = 32
BASELINE = 23  # rows of pixels from the top
_TALLEST, _DEEPEST, _WIDEST = (
    21,
    8,
    30,
)  # pixels above and below the baseline, and from side to side
_DRAWN_AT = 128  # size in pixels at which a font is measured
_MOST_ALIKE = 4  # O, o and 0 may be one picture
_FINER = 4  # a letter is drawn this much larger, and averaged


class Unusable(ValueError):
    """A font cannot be drawn, or lacks letters."""


def render(path: Path, times: int = 1) -> np.ndarray:
    """Return the letters of a font.

    Args:
        path: of a file that FreeType reads; of a collection, the first font.
        times: as many pixels of a side, up to 4; 1: 32.

    Returns:
        uint8 [letters, 32 · times, 32 · times]; 255 is ink.

    Raises:
        Unusable: a letter is missing, empty, or too large for the others.
    """
    try:
        measured = ImageFont.truetype(path, _DRAWN_AT, layout_engine=ImageFont.Layout.BASIC)
        boxes = np.array([measured.getbbox(letter, anchor="ls") for letter in LETTERS], float)
    except (OSError, ValueError) as error:
        raise Unusable(f"{path.name}: {error}") from error
    left, top, right, bottom = boxes.T
    if (right - left <= 0).any() or (bottom - top <= 0).any() or top.min() >= 0:
        raise Unusable(f"{path.name}: a letter has no ink")
    limits = (
        _TALLEST / -top.min(),
        _DEEPEST / max(bottom.max(), 1),
        _WIDEST / (right - left).max(),
    )
    size = _DRAWN_AT * min(limits) * _FINER
    if size / _FINER < 8:
        raise Unusable(f"{path.name}: a letter is far larger than the others")
    font = ImageFont.truetype(path, size, layout_engine=ImageFont.Layout.BASIC)
    drawn = np.stack([_draw(font, letter, times) for letter in LETTERS])
    if np.unique(drawn, axis=0, return_counts=True)[1].max() > _MOST_ALIKE:
        raise Unusable(f"{path.name}: many letters are the same picture, of a letter that it lacks")
    return drawn


def _draw(font: ImageFont.FreeTypeFont, letter: str, times: int) -> np.ndarray:
    side = SIDE * _FINER
    image = Image.new("L", (side, side))
    left, _, right, _ = font.getbbox(letter, anchor="ls")
    start = (side - (right - left)) / 2 - left
    ImageDraw.Draw(image).text((start, BASELINE * _FINER), letter, 255, font, anchor="ls")
    return np.asarray(image.reduce(_FINER // times))


def png_of(letter: np.ndarray) -> bytes:
    """Return the file of a letter, uint8 [32, 32] in which 255 is ink: black on white."""
    file = io.BytesIO()
    Image.fromarray(255 - letter).save(file, "PNG")
    return file.getvalue()


def row_of_letters(letters: np.ndarray) -> np.ndarray:
    """Return the first letters beside each other, black on white."""
    return 255 - np.concatenate([*letters[:30]], 1)
