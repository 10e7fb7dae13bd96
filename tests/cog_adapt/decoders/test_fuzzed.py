"""A thousand mutated files for each decoder: a value or one of the tree's errors, within memory.

The row of docs/security.md for each decoder has its bound. A file here has at most some hundred kB,
so that what memory rises by is what a decoder makes of it.
"""

import base64
import csv
import io
import json
import sys
import wave
import zipfile
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import pytest
import torch
from torch import nn

from cog_adapt.runner.data.examples import parse_examples
from cog_adapt.runner.errors import RunnerError
from cog_adapt.runner.known.receipt import read_receipt, sealed
from cog_adapt.runner.modules.adapter_fit import check_fits
from cog_adapt.runner.modules.adapters import Adapter, adapter_from_bytes
from cog_adapt.runner.storage.adapter_files import AdapterFiles
from cog_adapt.runner.storage.lora_files import LoRAFiles
from cog_adapt.runner.storage.peft_config import read_config, read_scales
from cog_adapt.runner.storage.peft_format import PeftFormat
from cog_adapt.server.api.body import read_body, read_object
from cog_adapt.server.api.large_bodies import LARGE_BYTES
from cog_adapt.server.errors import BodyError, InputError
from cog_adapt.server.protocol import Cancel, Frames, Log, Output, Run, to_frame
from cog_adapt.server.worker.data_urls import data_url_pieces
from gradient_check.phases.lora import LORA_A, LORA_B
from tests.cog_adapt.decoders.mutations import mutated
from tests.cog_adapt.decoders.peak import risen
from tests.cog_adapt.decoders.zips import packed

FILES = 1_000
MOST_MB = 48  # that memory may rise by over all files of a decoder
MOST_WORDS = 2_000  # characters of a refusal
BASE, HEAD = "b" * 16, r"head\..*"
ROWS = [{"input": f"text {n}, \u00e9 \U0001f600", "target": f"t{n % 3}"} for n in range(40)]


@dataclass(frozen=True)
class Decoder:
    """One decoder: what it reads, how, and the errors that it may answer with."""

    sound: list[bytes]
    read: Callable[[bytes], object]
    errors: tuple[type[Exception], ...] = (RunnerError,)


def model():
    return nn.ModuleDict({"body": nn.Linear(4, 3), "head": nn.Linear(3, 2)})


def adapter(**scales):
    torch.manual_seed(0)
    tensors = {f"body.{LORA_A}": torch.randn(2, 4), f"body.{LORA_B}": torch.randn(3, 2)}
    tensors |= {"head.weight": torch.randn(2, 3), "head.bias": torch.randn(2)}
    return Adapter(tensors, ("x", "y"), "lora", BASE, scales)


def taken(adapter):
    check_fits(adapter, BASE, model(), HEAD)
    return adapter.id


def csv_of(delimiter):
    file = io.StringIO()
    writer = csv.writer(file, delimiter=delimiter)
    writer.writerows([("input", "target"), *(tuple(row.values()) for row in ROWS)])
    return file.getvalue().encode()


def sound_wave(width, channels):
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setnchannels(channels)
        written.setsampwidth(width)
        written.setframerate(8_000)
        written.writeframes(bytes(range(256)) * 20)
    return file.getvalue()


def pictures():
    from PIL import Image

    from examples.image.pictures import FORMATS

    found = []
    for form in FORMATS:
        for mode in ("RGB", "L"):
            file = io.BytesIO()
            Image.effect_noise((24, 17), 60).convert(mode).save(file, form)
            found.append(file.getvalue())
    return found


def zips():
    members = [(f"c{n % 3}/{n}.png", bytes([n]) * 300) for n in range(12)]
    return [packed(*members, method=each) for each in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)]


def peft_read(tmp_path):
    path, peft = tmp_path / "adapter.zip", PeftFormat(model(), BASE, HEAD)

    def read(content):
        path.write_bytes(content)
        return taken(peft.read(path))

    return read


def lora_decoder(tmp_path):
    """LoRA files of an image model: diffusers' and kohya's, as a request brings them."""
    painter = nn.ModuleDict({"transformer": nn.ModuleDict(dict(model().named_children()))})
    about = PeftFormat(painter, BASE, HEAD)
    files = AdapterFiles(lambda found: _fitting(found, painter), about, LoRAFiles(about))
    tensors = {f"transformer.{name}": t for name, t in adapter().tensors.items() if "body" in name}
    made = Adapter(tensors, (), "lora", BASE)
    path = tmp_path / "lora.safetensors"

    def read(content):
        path.write_bytes(content)
        return files.read(path).id

    return Decoder([files.write(made, format)[0] for format in ("diffusers", "kohya")], read)


def _fitting(found, painter):
    check_fits(found, BASE, painter, HEAD)
    return found


def config_read(content):
    return read_scales(read_config(content), {"body": 2, "head": 3})


def body_read(content):
    return read_object(content, "application/json"), read_body(
        content, "application/json", strict=False
    )


def url_read(content):
    return b"".join(data_url_pieces(content.decode("latin-1"), 2**20))


def decoders(name, tmp_path):
    peft = PeftFormat(model(), BASE, HEAD)
    config = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "alpha_pattern": {"^body": 3}}
    receipt = json.dumps(sealed({"report": {"steps": 3, "losses": [0.5, 1e-3]}}, None)).encode()
    body = json.dumps({"id": "a", "input": {"text": "\u00e9", "rows": ROWS[:5]}, "context": {}})
    run = to_frame(Run("1", b"{}", {"a": "b"}, "2"))
    return {
        "json": lambda: Decoder(
            [json.dumps(ROWS).encode(), b'{"x": ["a", "b"], "y": ["c"]}'], parse_examples
        ),
        "json lines": lambda: Decoder(["\n".join(map(json.dumps, ROWS)).encode()], parse_examples),
        "csv": lambda: Decoder([csv_of(each) for each in ",;\t"], parse_examples),
        "zip": lambda: Decoder(zips(), parse_examples),
        "safetensors": lambda: Decoder(
            [adapter().to_bytes(), adapter(body=3.0).to_bytes()],
            lambda content: taken(adapter_from_bytes(content, "the file")),
        ),
        "peft": lambda: Decoder([peft.write(adapter())], peft_read(tmp_path)),
        "lora files": lambda: lora_decoder(tmp_path),
        "peft config": lambda: Decoder([json.dumps(config).encode()], config_read),
        "receipt": lambda: Decoder([receipt], read_receipt),
        "body": lambda: Decoder([body.encode()], body_read, (BodyError,)),
        "requests": lambda: Decoder(
            [bytes(run), bytes(to_frame(Cancel("1")) * 3)],
            lambda content: Frames.of_requests().feed(content),
            (msgspec.DecodeError,),
        ),
        "reports": lambda: Decoder(
            [
                bytes(to_frame(Log("1", "stdout", "words")) * 3),
                bytes(to_frame(Output("1", b'"x"'))),
            ],
            lambda content: Frames.of_reports().feed(content),
            (msgspec.DecodeError,),
        ),
        "data url": lambda: Decoder(
            [b"data:text/plain;base64," + base64.b64encode(bytes(range(200))), b"data:,a%20b"],
            url_read,
            (InputError,),
        ),
    }[name]()


NAMES = (
    *("json", "json lines", "csv", "zip", "safetensors", "peft", "peft config", "receipt"),
    *("lora files", "body", "requests", "reports", "data url"),
)


def fuzz(decoder):
    """Feed a decoder; return how many files it refused."""
    files = [*mutated(decoder.sound, FILES)]
    assert max(map(len, files)) < 4 * LARGE_BYTES
    for sound in decoder.sound:
        decoder.read(sound)
    refused, longest = 0, 0
    with risen() as rise:
        for content in files:
            try:
                decoder.read(content)
            except decoder.errors as error:
                refused += 1
                longest = max(longest, len(str(error)))
    assert rise.mb < MOST_MB
    assert longest < MOST_WORDS, "a refusal repeats what was sent"
    return refused


@pytest.mark.parametrize("name", NAMES)
def test_a_decoder_answers_a_thousand_mutated_files_with_a_value_or_an_error_of_the_tree(
    name, tmp_path
):
    refused = fuzz(decoders(name, tmp_path))
    assert refused > FILES // 5, "hardly any file is broken: the changes do not reach the decoder"


def test_pictures_are_decoded_or_refused():
    pytest.importorskip("PIL", reason="Pillow is not installed")
    pytest.importorskip("examples.image", reason="this repository has no model of pictures")
    from examples.image.pictures import pixels_of

    assert fuzz(Decoder(pictures(), pixels_of)) > FILES // 5


def test_sounds_are_decoded_or_refused():
    pytest.importorskip("examples.speech", reason="this repository has no model of sounds")
    from examples.speech.sounds import wave_of

    sounds = [sound_wave(width, channels) for width in (1, 2) for channels in (1, 2)]
    assert fuzz(Decoder(sounds, wave_of)) > FILES // 10


def test_the_thousand_files_are_the_same_at_each_run():
    first, second = (b"".join(mutated([b"abc" * 50], 100)) for _ in range(2))
    assert first == second
    assert sys.getsizeof(first) > 1_000
