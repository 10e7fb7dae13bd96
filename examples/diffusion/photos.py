"""Pictures with captions, as a caller sends them and a pipeline's VAE sees them."""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from examples.diffusion.letters import TRIGGER
from examples.image.pictures import file_of, opened, pixel_count, shrunk, turned

MOST_SIDE = 2048  # pixels of a drawn picture


@dataclass(frozen=True)
class Photo:
    """A picture with what it shows.

    Attributes:
        caption: in words.
        pixels: [3, side, side] from -1 to 1.
    """

    caption: str
    pixels: np.ndarray

    @classmethod
    def read(cls, row: Mapping[str, Any], side: int) -> "Photo":
        """Decode the row of an example: turned as its EXIF says, its middle cut to a square.

        Raises:
            InputError: its picture is none.
        """
        with opened(file_of(row["picture"])) as picture:
            picture.draft("RGB", (2 * side, 2 * side))
            small = shrunk(picture, min(1.0, 2 * side / min(picture.size)))
            whole = turned(small, picture)
        square = ImageOps.fit(whole, (side, side), Image.Resampling.LANCZOS)
        values = np.asarray(square, np.float32).transpose(2, 0, 1) / 127.5 - 1
        return cls(row["caption"], values)


def photo_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a caller's row as a caption and its picture's bytes, whose header is read."""
    content = file_of(row["image"] if "image" in row else row.get("input"))
    pixel_count(content)  # a mistake is named by its row
    caption = str(row.get("caption") or row.get("trigger_word") or TRIGGER)
    return {"caption": caption, "picture": content}


def gradient_bar(axis: int) -> bytes:
    """Return the file of a small picture that grows lighter along an axis."""
    shades = np.linspace(0, 255, 8).astype(np.uint8)
    values = np.repeat(np.expand_dims(shades, 1 - axis), 8, 1 - axis)
    file = io.BytesIO()
    Image.fromarray(values).save(file, "PNG")
    return file.getvalue()
