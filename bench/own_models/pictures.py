"""Pictures of Fashion-MNIST (Xiao et al. 2017, arXiv 1708.07747, MIT), from Debian's package."""

import gzip
import io
import random
from collections.abc import Iterator
from pathlib import Path

from PIL import Image

LABELS = (
    *("top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot"),
)
FOLDER = Path("/usr/share/datasets/fashion-mnist")
_SIDE = 28


def clothes(part: str, per_label: int, seed: int = 0) -> Iterator[tuple[bytes, str]]:
    """Draw pictures of each label; yields a PNG file and its label's name.

    Args:
        part: `train` or `t10k`.
        per_label: how many of each.
        seed: of the draw.
    """
    pixels = gzip.decompress((FOLDER / f"{part}-images-idx3-ubyte.gz").read_bytes())[16:]
    numbers = gzip.decompress((FOLDER / f"{part}-labels-idx1-ubyte.gz").read_bytes())[8:]
    for label, name in enumerate(LABELS):
        places = [place for place, number in enumerate(numbers) if number == label]
        for place in random.Random(label + 10 * seed).sample(places, per_label):
            yield _png(pixels[place * _SIDE**2 : (place + 1) * _SIDE**2]), name


def _png(pixels: bytes) -> bytes:
    file = io.BytesIO()
    Image.frombytes("L", (_SIDE, _SIDE), pixels).save(file, "PNG")
    return file.getvalue()
