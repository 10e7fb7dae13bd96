"""Letters as a caller sends them and gets them: texts, and pictures of ink on paper."""

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps

from cog_adapt import Batch, InputError
from examples.diffusion.network import LETTERS, SIDE
from examples.image.pictures import file_of, opened, pixel_count, shrunk, turned

TRIGGER = "TOK"
MOST_LETTERS = 64
_MOST_PIXELS, _MOST_SIDE = 4_000_000, 16_383  # of a drawn text: 0.2 s as WebP, whose longest side
_GAP, _SPACE, _LINE = 2, 9, 32  # pixels between letters, of a space, and of a line
_INK = 0.15  # a column with less ink than this in each pixel is empty


@dataclass(frozen=True)
class Letter:
    """A letter with its picture.

    Attributes:
        name: of A to Z, a to z, 0 to 9.
        pixels: [32, 32] from -1 (paper) to 1 (ink).
    """

    name: str
    pixels: np.ndarray

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> "Letter":
        """Decode the row of an example (InputError if its picture is none)."""
        return cls(row["letter"], pixels_of(file_of(row["picture"])))


def letter_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a caller's row as a letter's name and its picture's bytes, whose header is read."""
    content = file_of(row["image"] if "image" in row else row.get("input"))
    pixel_count(content)  # a mistake is named by its row
    return {"letter": letter_of(row), "picture": content}


def encoded(letters: Sequence[Letter]) -> Batch:
    """Return letters as positions in `LETTERS`, [n], and pictures, [n, 1, 32, 32]."""
    pixels = torch.stack([torch.from_numpy(each.pixels) for each in letters])
    names = torch.tensor([LETTERS.index(each.name) for each in letters])
    return {"letter": names, "picture": pixels.unsqueeze(1)}


def letter_of(row: Mapping[str, Any]) -> str:
    """Return the letter that a row's picture shows: its caption, or the name of its file.

    Raises:
        InputError: there is neither, or it is no single letter or digit.
    """
    given = str(row.get("caption") or row.get("name") or "").strip()
    letter = given if len(given) == 1 else given.rpartition("_")[2]
    if letter not in LETTERS or len(letter) != 1:
        raise InputError(
            f"the caption {given[:40]!r} is no letter of A to Z, a to z, 0 to 9. Name each picture "
            "after its letter (A.png, small_a.png), or give the letter as `caption`."
        )
    return letter


def letters_of(text: str) -> list[int]:
    """Return the positions of a text's letters, its spaces left out.

    Raises:
        InputError: it has no letters, too many, or others than the base knows.
    """
    others = sorted({each for each in text if each not in LETTERS and not each.isspace()})
    if others:
        raise InputError(
            f"the prompt has {', '.join(map(repr, others[:8]))}, which the base cannot draw. Use "
            "letters of A to Z, a to z and digits."
        )
    found = [LETTERS.index(each) for each in text if not each.isspace()]
    if not 0 < len(found) <= MOST_LETTERS:
        raise InputError(f"the prompt has {len(found)} letters; give 1 to {MOST_LETTERS}.")
    return found


def check_size(text: str, height: int) -> None:
    """Refuse a text whose picture would be too large: it is set while others wait.

    Raises:
        InputError: the picture has too many pixels, or too long a side for WebP.
    """
    lines = text.splitlines()
    widths = [
        sum(_GAP + (_SPACE if each.isspace() else SIDE) for each in line) + _GAP for line in lines
    ]
    width, whole = max(widths) * height // _LINE, height * len(lines)
    if width * whole > _MOST_PIXELS or max(width, whole) > _MOST_SIDE:
        raise InputError(
            f"the picture may have {width:,} x {whole:,} pixels; the limits are {_MOST_PIXELS:,}, "
            f"and {_MOST_SIDE:,} a side. Ask for a smaller `height` (it is {height}), or less text."
        )


def pixels_of(content: bytes) -> np.ndarray:
    """Return a letter's picture as the network sees it, [32, 32] from -1 (paper) to 1 (ink).

    The picture is turned as its EXIF says and padded to a square. Whatever its border has most of
    is paper, light or dark.

    Raises:
        InputError: the bytes are no picture, or nothing stands out from the border.
    """
    with opened(content) as picture:
        picture.draft("L", (4 * SIDE, 4 * SIDE))
        small = shrunk(picture, min(1.0, 4 * SIDE / max(picture.size)))
        grey = turned(small, picture).convert("L")
    side = max(grey.size)
    values = np.asarray(grey)
    border = np.concatenate([values[0], values[-1], values[:, 0], values[:, -1]])
    paper = int(np.median(border))
    square = ImageOps.pad(grey, (side, side), color=paper).resize(
        (SIDE, SIDE), Image.Resampling.BOX
    )
    ink = np.abs(np.asarray(square, np.float32) - paper)
    if ink.max() < 32:
        raise InputError("a picture shows no letter: nothing stands out from its border.")
    pixels: np.ndarray = ink / ink.max() * 2 - 1
    return pixels


def set_text(text: str, letters: np.ndarray, height: int) -> Image.Image:
    """Set a text from its drawn letters.

    Args:
        text: as it was asked; a line break starts a line.
        letters: those of the text without its spaces, [n, 32, 32] from -1 to 1.
        height: of a line, in pixels.

    Returns:
        Black ink on white paper.
    """
    drawn = iter((letters.clip(-1, 1) + 1) / 2)
    lines = [
        _line([None if each.isspace() else next(drawn) for each in line])
        for line in text.splitlines()
    ]
    width = max(line.shape[1] for line in lines)
    page = np.concatenate([np.pad(line, ((0, 0), (0, width - line.shape[1]))) for line in lines])
    paper = Image.fromarray((255 - page * 255).round().astype(np.uint8))
    scale = height / _LINE
    return paper.resize((round(width * scale), height * len(lines)), Image.Resampling.BICUBIC)


def data_uri(picture: Image.Image, form: str) -> str:
    """Return a picture as a data URI; `form` is png, webp or jpg."""
    file = io.BytesIO()
    kind = {"jpg": "jpeg"}.get(form, form)
    picture.save(file, kind)
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode()}"


def written(uri: str, form: str) -> Path:
    """Write a data URI's picture to a file, which the server sends and removes."""
    path = Path(mkdtemp()) / f"out.{form}"
    path.write_bytes(base64.b64decode(uri.partition(",")[2]))
    return path


def _line(letters: Sequence[np.ndarray | None]) -> np.ndarray:
    parts = [np.zeros((SIDE, _GAP), np.float32)]
    for letter in letters:
        if letter is None:
            parts.append(np.zeros((SIDE, _SPACE), np.float32))
            continue
        inked = np.flatnonzero(letter.max(0) > _INK)
        first, last = (inked[0], inked[-1]) if len(inked) else (0, SIDE - 1)
        parts += [letter[:, first : last + 1], np.zeros((SIDE, _GAP), np.float32)]
    return np.concatenate(parts, 1)


# A bar and a dot: PNG files of 3 x 3 pixels
PROBE = (
    {
        "letter": "I",
        "picture": "iVBORw0KGgoAAAANSUhEUgAAAAMAAAADCAAAAABzQ+pjAAAAFElEQVR42mP4z/Cf"
        "iYGBgYmBgQEAFBACA8Hh780AAAAASUVORK5CYII=",
    },
    {
        "letter": "o",
        "picture": "iVBORw0KGgoAAAANSUhEUgAAAAMAAAADCAAAAABzQ+pjAAAAFElEQVR42mP8z8DA"
        "xMDIwMTwnwEADSkCBRXFpvQAAAAASUVORK5CYII=",
    },
)
