"""Pictures with captions, as callers send them."""

import base64
import io

from PIL import Image

from examples.diffusion.folder import Folder
from examples.diffusion.photos import Photo, gradient_bar


def test_a_photo_is_turned_and_its_middle_is_cut():
    picture = Image.new("RGB", (40, 20), "red")
    picture.paste("blue", (0, 0, 40, 4))
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=100, exif=exif)
    photo = Photo.read({"caption": "x", "picture": file.getvalue()}, 16)
    assert photo.pixels.shape == (3, 16, 16)
    assert (photo.pixels[2, :, -1] > 0.8).all()  # the blue edge is on the right
    assert (photo.pixels[0, :, :8] > 0.8).all()


def test_a_row_without_a_caption_has_the_trigger_word():
    task = Folder("unread")
    row = {"image": f"data:image/png;base64,{base64.b64encode(gradient_bar(0)).decode()}"}
    found = [task.example(row | more).input["caption"] for more in ({}, {"trigger_word": "ZOE"})]
    assert found == ["TOK", "ZOE"]
    assert task.example(row | {"caption": "a ZOE"}).input["caption"] == "a ZOE"
