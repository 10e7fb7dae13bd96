"""Letters as callers send them: what is read, and what is refused."""

import io
import zipfile

import numpy as np
import pytest
from PIL import Image, ImageOps

from cog_adapt import (
    InputError,
    read_examples,
)
from examples.diffusion.letters import letter_of, pixels_of, set_text
from examples.diffusion.task import Letters
from examples.diffusion.tests.pictures_of_letters import bar, saved, uri


def test_light_ink_on_dark_paper_is_the_same_letter():
    dark, light = pixels_of(bar()), pixels_of(bar(ink=255, paper=0))
    assert np.allclose(dark, light)
    assert (dark.min(), dark.max()) == (-1, 1)


def test_a_transparent_and_a_turned_picture_are_seen_as_they_are_meant():
    picture = Image.open(io.BytesIO(bar(side=64)))
    clear = Image.merge("LA", (picture, ImageOps.invert(picture)))
    assert np.allclose(pixels_of(saved(clear)), pixels_of(bar(side=64)), atol=0.02)
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    turned = saved(picture.rotate(90).convert("RGB"), "JPEG", quality=100, exif=exif)
    assert np.abs(pixels_of(turned) - pixels_of(bar(side=64))).mean() < 0.05


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"caption": "AB", "image": uri(bar())}, "the caption 'AB' is no letter"),
        ({"image": uri(bar())}, "the caption '' is no letter"),
        ({"caption": "A", "image": "http://host/a.png"}, "is not fetched"),
        ({"caption": "A", "image": uri(bar()[:60])}, "cannot be read"),
        ({"caption": "A"}, "is no picture"),
    ],
)
def test_a_row_that_is_no_letter_is_refused(row, said):
    with pytest.raises(InputError, match=said):
        Letters().decode_input(Letters().example(row).input)


@pytest.mark.parametrize(
    ("size", "said"), [((8000, 8000), "limit is 40,000,000"), ((1, 70000), "65,535")]
)
def test_a_picture_that_is_too_large_is_refused_by_its_header(size, said):
    bomb = saved(Image.new("1", size))
    assert len(bomb) < 20_000
    with pytest.raises(InputError, match=said):
        Letters().example({"caption": "A", "image": uri(bomb)})


def test_of_an_animated_picture_the_first_counts():
    first, second = (Image.open(io.BytesIO(bar(width))) for width in (3, 9))
    moving = saved(first, "GIF", save_all=True, append_images=[second])
    assert np.allclose(pixels_of(moving), pixels_of(bar(3)))


def test_a_large_picture_is_shrunk_as_a_whole():
    large = Image.open(io.BytesIO(bar())).resize((3200, 3200), Image.Resampling.NEAREST)
    assert np.abs(pixels_of(saved(large)) - pixels_of(bar())).mean() < 0.02


def test_an_empty_picture_is_refused():
    with pytest.raises(InputError, match="shows no letter"):
        pixels_of(bar(ink=250))


def test_a_flat_zip_names_its_letters_by_file_or_caption(tmp_path):
    path = tmp_path / "letters.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (("A.png", bar()), ("small_a.png", bar()), ("x.png", bar())):
            archive.writestr(name, content)
        archive.writestr("x.txt", "7\n")
    found = read_examples(path, Letters().example)
    assert [each.input["letter"] for each in found.examples] == ["A", "a", "7"]


def test_a_line_is_as_high_as_asked_and_a_space_is_wide():
    letters = np.full((2, 32, 32), -1.0)
    letters[:, 5:25, 12:20] = 1
    close, apart = set_text("II", letters, 64), set_text("I I", letters, 64)
    assert close.height == apart.height == 64
    assert apart.width > close.width


def test_a_caption_is_stripped():
    assert letter_of({"caption": " g\n"}) == "g"
