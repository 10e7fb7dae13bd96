"""A task that decodes pictures in `encode`, and counts nothing, has a budget of pixels too."""

import asyncio
import io
import struct
from base64 import b64encode
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from PIL import Image

from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.inference.answers import Query
from cog_adapt.runner.model_runner import ModelRunner
from cog_adapt.runner.request import Request
from cog_adapt.runner.requests.few_shot import answer
from cog_adapt.runner.requests.training import train
from cog_adapt.runner.task.decoding import opens_no_file
from cog_adapt.runner.task.picture_sizes import pixel_count
from tests.cog_adapt.devices import DEVICE
from tests.cog_adapt.models import Letters

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
WIDTH, HEIGHT = 37, 21


def picture(form="PNG", size=(WIDTH, HEIGHT), **how):
    file = io.BytesIO()
    Image.new("RGB", size, (200, 30, 9)).save(file, form, **how)
    return file.getvalue()


def bomb(side=2**16):
    """A PNG file whose header says so many rows and columns, and little else."""
    header = struct.pack(">II", side, side) + b"\x08\x02\0\0\0"
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + header + b"\0" * 4


class Strangers(Letters):
    """Pictures as a stranger's task has them: decoded in `encode`, nothing counted."""

    def __init__(self):
        self.opened = []

    def encode(self, inputs):
        self.opened += inputs
        return {"ids": torch.zeros(len(inputs), 6, dtype=torch.long)}

    def probe(self):
        return [Example(picture(), "low"), Example(picture(), "high")]


@pytest.fixture
def strangers(tmp_path):
    task = Strangers()
    with ModelRunner(task, RunnerSettings(device=DEVICE, weights_dir=tmp_path)) as runner:
        task.opened.clear()
        yield runner


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "bomb"
    path.write_bytes(bomb())
    return path


def sent_as(form, content, folder):
    path = folder / "sent"
    path.write_bytes(content)
    base64 = b64encode(content).decode()
    ways = {"file": path, "bytes": content, "URI": f"data:image/x;base64,{base64}"}
    return {**ways, "base64": base64, "inside": {"picture": [path], "name": "a"}}[form]


@pytest.mark.parametrize("form", ["file", "bytes", "URI", "base64", "inside"])
def test_a_bomb_is_refused_before_encode_however_it_is_sent(strangers, tmp_path, form):
    sent, said = sent_as(form, bomb(), tmp_path), "4,294,967,296 pixels; the limit is 200,000,000"
    scope: Any = SimpleNamespace(context={}, record_metric=lambda *_: None)
    with pytest.raises(InputError, match=f"up to input 2 the request has {said}"):
        asyncio.run(answer(strangers, Request(["a", sent], ("low", "high")), scope))
    with pytest.raises(InputError, match=said):
        strangers.predict([sent], labels=("low", "high"))
    with pytest.raises(InputError, match=said):
        asyncio.run(strangers.predict_async(Query([sent], labels=("low", "high"))))
    assert strangers.task.opened == []


def test_examples_count_too(strangers, file):
    rows = [Example("a", "low"), Example(file, "high")]
    with pytest.raises(InputError, match="up to example 2"):
        strangers.adapt(rows, Recipe(method="all", max_steps=1))
    base64 = b64encode(bomb()).decode()
    examples = [{"input": "a", "target": "low"}, {"input": base64, "target": "high"}]
    with pytest.raises(InputError, match="up to example 2"):
        asyncio.run(train(strangers, Request(examples=examples)))
    assert strangers.task.opened == []


def test_many_small_pictures_count_together(strangers, tmp_path):
    class Few(Strangers):
        max_decoding = 3 * WIDTH * HEIGHT

    with ModelRunner(Few(), RunnerSettings(device=DEVICE, weights_dir=tmp_path)) as runner:
        assert len(runner.predict([picture()] * 3, labels=("low", "high"))) == 3
        with pytest.raises(InputError, match="up to input 4 the request has 3,108 pixels"):
            runner.predict([picture()] * 4, labels=("low", "high"))


@pytest.mark.parametrize("form", FORMATS)
def test_the_size_is_that_of_the_header(form):
    content = picture(form)
    assert pixel_count(content) == WIDTH * HEIGHT
    assert pixel_count(b64encode(content).decode()) == (WIDTH * HEIGHT if form != "BMP" else 0)
    assert pixel_count([content, {"more": content}]) == 2 * WIDTH * HEIGHT


def test_odd_headers_are_read_as_pillow_reads_them():
    how: dict[str, Any] = {"exif": b"Exif\0\0" + b"x" * 60_000, "comment": b"c" * 60_000}
    odd = [picture("JPEG", **how), picture("JPEG", progressive=True)]
    odd += [picture("WEBP", lossless=True), picture("WEBP", exif=b"Exif\0\0x")]
    odd.append(odd[1].replace(b"\xff\xc2", b"\xff\xff\xff\xc2", 1))  # bytes that fill up
    kinds = {content[12:16] for content in odd if content.startswith(b"RIFF")}
    assert kinds == {b"VP8L", b"VP8X"}
    for content in odd:
        width, height = Image.open(io.BytesIO(content)).size
        assert pixel_count(content) == width * height == WIDTH * HEIGHT


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_broken_has_no_pixels_or_those_of_its_header(form):
    content = picture(form)
    for end in range(len(content)):
        assert pixel_count(content[:end]) in (0, WIDTH * HEIGHT)


@pytest.mark.parametrize("after", [b"", b"\0", b"\xff" * 20_000, b"\x00\xc0\x00\x11\x08" * 9])
def test_a_jpeg_without_a_size_has_no_pixels(after):
    assert pixel_count(b"\xff\xd8" + after) == 0


@pytest.mark.parametrize(
    "text",
    ["", "a", "data:", "data:text/plain,a", "/9j/ is how a JPEG begins", "BM" * 40, "R0lGOD!"],
)
def test_a_text_is_no_picture(text):
    assert pixel_count(text) == pixel_count(text.encode()) == 0


def test_nothing_but_files_is_opened(tmp_path):
    assert [pixel_count(each) for each in (tmp_path, tmp_path / "none", None, 7)] == [0] * 4


def test_only_short_texts_are_looked_at_on_the_event_loop(file):
    class Counting(Strangers):
        def decoding_cost(self, value):
            return 1

    short = Example("a", "low")
    assert opens_no_file(Strangers(), ["a", "data:"], [short])
    for value in (file, bomb(), "a" * 2**16, ["a"]):
        assert not opens_no_file(Strangers(), ["a", value])
        assert not opens_no_file(Strangers(), [], [short, Example(value, "low")])
    assert not opens_no_file(Counting(), ["a"])
