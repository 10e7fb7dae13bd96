"""Pictures of more blocks, scans or pixels than are taken, and those that are taken."""

import base64
import io
import struct
import sys

import pybase64
import pytest
from PIL import Image

from cog_adapt import InputError
from examples.image.picture_blocks import MOST_BLOCKS, MOST_EXIF, MOST_SCANS, check_blocks
from examples.image.pictures import (
    FORMATS,
    MOST_BYTES,
    MOST_WEBP_PIXELS,
    file_of,
    pixel_count,
    pixels_of,
)


def saved(kind, side=16):
    file = io.BytesIO()
    Image.new("RGB", (side, side)).save(file, kind)
    return file.getvalue()


def with_scans(count):
    """A JPEG whose one block is refined by nothing, again and again; some bytes lie between."""
    head = (
        b"\xff\xd8\xff\xdb\0\x43\0" + bytes([1] * 64) + b"\xff\xc2\0\x0b\x08\0\x08\0\x08\1\1\x11\0"
    )
    head += b"\xff\xc4\0\x14\0\1" + bytes(15) + b"\0" + b"\xff\xc4\0\x14\x10\1" + bytes(15) + b"\0"
    first, refined = b"\xff\xda\0\x08\1\1\0\0\0\0\x7f", b"\xff\xda\0\x08\1\1\0\1\x3f\0\x7f"
    return head + first + (b"\xff\xfe\0\2\0" + refined) * (count - 1) + b"\xff\xd9"


PNG, JPEG, GIF = (saved(kind) for kind in ("PNG", "JPEG", "GIF"))
OF_BLOCKS = {
    "a PNG's chunks before its pixels": PNG[:33] + bytes(12) * MOST_BLOCKS + PNG[33:],
    "a PNG's chunks after its pixels": PNG[:-12] + bytes(12) * MOST_BLOCKS + PNG[-12:],
    "a PNG's chunks after an end": PNG[:33] + PNG[-12:] + bytes(12) * MOST_BLOCKS + PNG[33:],
    "a JPEG's segments": JPEG[:2] + b"\xff\xe9\0\2" * MOST_BLOCKS + JPEG[2:],
    "a JPEG's segments after an end": JPEG[:2] + b"\xff\xd9" * MOST_BLOCKS + JPEG[2:],
    "bytes that fill a JPEG": JPEG[:2] + b"\xff" * MOST_BLOCKS + JPEG[2:],
    "bytes that fill a JPEG's scan": JPEG[:-2] + b"\xff" * MOST_BLOCKS + JPEG[-2:],
    "a GIF's extensions": GIF[:-1][: GIF.index(b",")] + b"!\xfe\1a\0" * MOST_BLOCKS + b",",
    "a WebP's chunks": b"RIFF\xff\xff\xff\0WEBP" + b"junk\0\0\0\0" * (MOST_BLOCKS + 1),
    "bytes before a GIF's frame": GIF[: GIF.index(b",")] + bytes(MOST_BLOCKS + 1) + b",",
}


@pytest.mark.parametrize("content", OF_BLOCKS.values(), ids=OF_BLOCKS)
def test_a_picture_of_more_blocks_than_pictures_have_is_refused(content):
    for read in (pixels_of, pixel_count):
        with pytest.raises(InputError, match=r"more than 10,000 blocks .*Save it anew"):
            read(content)


def test_a_jpeg_is_decoded_by_a_hundred_scans_at_most():
    assert pixels_of(with_scans(MOST_SCANS)).shape == (224, 224, 3)
    with pytest.raises(InputError, match="more than 100 scans. Save it as a baseline JPEG"):
        pixel_count(with_scans(MOST_SCANS + 1))


def test_a_jpeg_has_the_exif_of_one_segment_and_of_one_more():
    exif, other = (b"\xff\xe1\0\x08" + name for name in (b"Exif\0\0", b"http:/"))
    assert pixels_of(JPEG[:2] + exif * MOST_EXIF + other * 9 + JPEG[2:]).shape == (224, 224, 3)
    for read in (pixels_of, pixel_count):
        with pytest.raises(InputError, match="more than 2 segments of EXIF. Save it anew"):
            read(JPEG[:2] + exif * (MOST_EXIF + 1) + JPEG[2:])


@pytest.mark.parametrize("kind", FORMATS)
def test_what_follows_a_picture_and_usual_blocks_of_it_are_taken(kind):
    file = io.BytesIO()
    picture = Image.effect_noise((900, 900), 90)
    options = {"progressive": True, "exif": bytes(50_000)} if kind == "JPEG" else {}
    picture.save(file, kind, **options)
    assert pixels_of(file.getvalue() + bytes(200_000)).shape == (224, 224, 3)


def test_a_webp_is_small_enough_for_others_to_wait_until_it_is_decoded():
    side = int(MOST_WEBP_PIXELS**0.5) + 1
    with pytest.raises(
        InputError, match=f"{side} x {side} pixels; the limit is 16,000,000. .*JPEG"
    ):
        pixel_count(saved("WEBP", side))


HOSTILE = {
    "a PNG of as many chunks as fit": PNG[:33] + bytes(12) * 2**20 + PNG[33:],
    "a PNG of as many chunks behind its pixels": PNG[:-12] + bytes(12) * 2**20 + PNG[-12:],
    "a JPEG of as many segments": JPEG[:2] + b"\xff\xe9\0\2" * 2**21 + JPEG[2:],
    "a BMP of one long row": b"BM"
    + struct.pack("<IHHI", 2**24 - 54, 0, 0, 54)
    + struct.pack("<IiiHHIIIIII", 40, 2**22, 1, 1, 24, 0, 0, 0, 0, 0, 0)
    + bytes(2**23),
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("form", ["base64", "data URI", "file"])
def test_a_hostile_file_is_refused_by_its_first_bytes(content, form, tmp_path, monkeypatch):
    decoded: list[int] = []
    checked: list[int] = []
    whole = pybase64.b64decode

    def decode(text, **options):
        decoded.append(len(text))
        return whole(text, **options)

    def noted(content):
        checked.append(len(content))
        check_blocks(content)

    monkeypatch.setattr(pybase64, "b64decode", decode)
    monkeypatch.setattr(sys.modules[file_of.__module__], "check_blocks", noted)
    given = base64.b64encode(content).decode()
    if form == "data URI":
        given = f"data:image/png;base64,{given}"
    if form == "file":
        given = tmp_path / "picture"
        given.write_bytes(content)
    with pytest.raises(InputError, match=r"blocks|side|pixels"):
        file_of(given)
    assert sum(decoded) <= 2**18
    assert max(checked) <= 2**18


def test_a_text_that_holds_too_many_bytes_is_not_decoded(monkeypatch):
    monkeypatch.setattr(pybase64, "b64decode", None)
    with pytest.raises(InputError, match="more than 16,777,216 bytes"):
        file_of("A" * (MOST_BYTES // 3 * 4 + 12))


@pytest.mark.parametrize("kind", FORMATS)
def test_a_picture_larger_than_what_is_checked_first_is_taken(kind, tmp_path):
    file = io.BytesIO()
    Image.effect_noise((900, 900), 90).convert("RGB").save(
        file, kind, **({"lossless": True} if kind == "WEBP" else {"quality": 95})
    )
    content = file.getvalue()
    assert len(content) > 2**18
    path = tmp_path / "picture"
    path.write_bytes(content)
    text = base64.b64encode(content).decode()
    for given in (path, content, text, f"data:image/{kind.lower()};base64,{text}"):
        assert file_of(given) == content
    assert pixels_of(content).shape == (224, 224, 3)
